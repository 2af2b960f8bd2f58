"""Execution on a dask cluster (extra `[dask]`)."""

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("a cluster needs dask: pip install 'clusterfug[dask]'") from error
