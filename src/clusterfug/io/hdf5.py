"""Features in HDF5 files (extra `[io]`: h5py)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENDINGS = (".h5", ".hdf5")


def read_features(path: Path) -> NDArray[Any]:
    """Return the dataset `features`, or the only 2-D one anywhere in the file."""
    h5py = require_h5py()
    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} is not an HDF5 file")
    try:
        with h5py.File(path, "r") as file:
            datasets = _datasets(h5py, file)
            tables = [name for name, dataset in datasets.items() if dataset.ndim == 2]
            name = "features" if "features" in datasets else tables[0] if len(tables) == 1 else None
            if name is not None:
                return np.asarray(datasets[name][()])
            held = ", ".join(datasets) or "nothing"
    except MemoryError:
        raise
    except Exception as error:  # any error that HDF5 raises for a broken file
        raise ValueError(f"{path} is broken: {' '.join(str(error).split())}") from error
    raise ValueError(
        f"{path} must hold a dataset named 'features' or exactly one 2-D dataset; it holds {held}"
    )


def write_features(path: Path, array: NDArray[Any]) -> None:
    with require_h5py().File(path, "w") as file:
        file.create_dataset("features", data=array)


def require_h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py: pip install 'clusterfug[io]'") from error
    return h5py


def _datasets(h5py: Any, file: Any) -> dict[str, Any]:
    """Return all datasets by name, also those in groups. Links to other files are not followed."""
    found: dict[str, Any] = {}

    def visit(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset):
            found[name] = entry

    file.visititems(visit)
    return found
