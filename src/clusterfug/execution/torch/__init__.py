"""The same road on a GPU: problems as tensors, and the few operations on all of their numbers."""
