"""Estimators and the assignment of new items to clusters."""
