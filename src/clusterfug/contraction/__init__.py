"""Contraction: each algorithm takes a problem and returns its contraction history."""
