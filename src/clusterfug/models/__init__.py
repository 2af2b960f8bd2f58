"""The estimator, and the assignment of new items to clusters."""
