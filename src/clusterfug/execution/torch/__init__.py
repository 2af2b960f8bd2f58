"""Execution as tensors on a torch device: packed problems, and batched operations on all of their items."""
