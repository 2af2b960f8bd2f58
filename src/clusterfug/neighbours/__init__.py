"""The most attractive partners of every item: exact search, approximate search, lists under contraction."""
