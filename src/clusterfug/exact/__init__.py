"""Proven optima of small problems by branch and cut."""
