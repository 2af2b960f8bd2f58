"""Choice of the torch device, and its memory. `execution/plan.py` calls `choose_device`.

Nothing here imports torch unless a device is requested.
"""

import math
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from clusterfug import checks

if TYPE_CHECKING:
    import torch

    from clusterfug.solvers import Solver

_MEMORY_SHARE = 0.9  # of a GPU's free memory that a run may use by default


def choose_device(device: Any, solver: "Solver", X: Any = None) -> "torch.device | None":
    """Return the device to solve on with tensors, or None for compiled kernels on the CPU."""
    here = X.device if checks.on_gpu(X) else None
    name = device if isinstance(device, str) else None
    if name == "cpu" or (device is None and here is None):
        return None
    has_tensors = "torch" in solver.executions
    if name == "auto":
        return (here or _any_gpu()) if has_tensors else None
    torch = sys.modules.get("torch")
    named = None if name is None else re.fullmatch(r"cuda(?::([0-9]{1,9}))?", name)
    if device is None:
        device = here
    elif named is None and (
        torch is None or not isinstance(device, torch.device) or device.type not in ("cpu", "cuda")
    ):
        raise ValueError(
            f"unknown device {checks.shown(device)}: choose one of auto, cpu, cuda, cuda:0, cuda:1, ..."
        )
    if not has_tensors:
        hint = ", with the labels of a GPU result as init if you like" if "init" in solver.options() else ""
        raise ValueError(f"{solver.name} runs on the CPU only: use device='cpu'{hint}")
    if named is not None:  # torch reads cuda:256 as cuda:0
        index = None if named[1] is None else int(named[1])
    elif device.type == "cpu":
        return device
    else:
        index = device.index
    return _usable(here.index if index is None and here is not None else index)


def is_given(device: Any) -> bool:
    """Return whether a device is requested, not only allowed."""
    return device is not None and not (isinstance(device, str) and device in ("cpu", "auto"))


def _usable(index: int | None) -> "torch.device":
    """Return the GPU with a number, or the current one; raise an error if it cannot be used."""
    torch = _torch()
    if not torch.cuda.is_available():
        name = "cuda" if index is None else f"cuda:{index}"
        raise ValueError(
            f"device '{name}': torch finds no CUDA GPU here; use device='cpu' or device='auto'"
        )
    count = torch.cuda.device_count()
    index = torch.cuda.current_device() if index is None else index
    if index >= count:
        raise ValueError(f"device 'cuda:{index}' does not exist: there are cuda:0 to cuda:{count - 1}")
    if find_spec("triton") is None:
        raise ImportError("a GPU needs triton, which comes with torch on Linux: pip install triton")
    return torch.device("cuda", index)


def _any_gpu() -> "torch.device | None":
    """Return the current GPU if there is one and all that it needs is installed."""
    try:
        return _usable(None)
    except (ImportError, ValueError):
        return None


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("a GPU needs torch: pip install 'clusterfug[gpu]'") from error
    return torch


def available_bytes(device: "torch.device", limit: int | None) -> float:
    """Return the bytes that a run may use on the device."""
    if limit is not None:
        return limit
    if device.type == "cpu":
        return math.inf
    cuda = _torch().cuda
    free, _ = cuda.mem_get_info(device)
    return _MEMORY_SHARE * (free + cuda.memory_reserved(device) - cuda.memory_allocated(device))


def out_of_memory_error(device: "torch.device") -> MemoryError:
    """Return the error, in one line, for an allocation that failed."""
    return MemoryError(
        f"{device} ran out of memory: end other programs there, give a smaller memory_limit so that "
        "features are streamed, or use device='cpu'"
    )
