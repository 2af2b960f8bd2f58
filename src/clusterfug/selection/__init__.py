"""Selection of the strictness of a local threshold, by a score or by a target number of clusters."""
