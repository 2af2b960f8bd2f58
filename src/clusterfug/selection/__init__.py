"""Choosing how strict a local threshold is: by how clear clusters are, or how many there shall be."""
