"""From labels to better labels: moves, joins, levels, Kernighan-Lin, iterated local search."""
