"""Candidate pairs: exact search over all items, and the lists of neighbours that contraction keeps."""
