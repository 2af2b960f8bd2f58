"""clusterfug on a dask cluster: problems larger than a machine, and many problems on many machines.

from dask.distributed import Client
from clusterfug.distributed import dense_multicut

result = dense_multicut("embeddings/", threshold=0.4, metric="cosine", client=Client("tcp://..."))
"""

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("a cluster needs dask: pip install 'clusterfug[dask]'") from error

from clusterfug.distributed.many import solve_many
from clusterfug.distributed.solve import dense_multicut

__all__ = ["dense_multicut", "solve_many"]
