"""Where a solver runs: threads and compiled kernels on the CPU, tensors on a GPU, shards, dask, batches."""
