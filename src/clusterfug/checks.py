"""Checks of single arguments: an error is one line that says what to do, raised before any work."""

import numbers
import re
import sys
from os import PathLike
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

#: Costs are products of two features; beyond this they would leave the range of float64.
LARGEST = 1e150

_BLOCK_BYTES = 1 << 24
_MAX_SHOWN = 80  # characters of a value in an error


def shown(value: object) -> str:
    """Return a value as an error names it: in one line of limited length."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"unknown {name} {shown(value)}: choose one of {', '.join(known)}")
    return value


def number(name: str, value: object, minimum: float = -np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, not {shown(value)}")
    try:
        result = float(value)
    except OverflowError:  # of an integer
        result = np.inf
    if not np.isfinite(result) or abs(result) > LARGEST:
        raise ValueError(f"{name} must be a finite number, not {result}")
    if result < minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, not {result:g}")
    return result


def count(name: str, value: object, minimum: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, not {shown(value)}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {shown(value)}")
    return min(int(value), sys.maxsize)  # nothing that is counted is more than a machine addresses


def time_limit(value: Any) -> float | None:
    """Return seconds, of which there may be infinitely many, or None."""
    if value is None:
        return None
    if isinstance(value, float | np.floating) and value == np.inf:
        return np.inf
    return number("time_limit", value, 0.0)


_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def memory(name: str, value: object) -> int:
    """Return bytes given as a whole number or a text such as "600MB" or "2 GiB"."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]+)\s*", value)
        if match is None or match[2].upper() not in _UNITS:
            raise ValueError(
                f'{name} must be bytes, or a text such as "600MB" or "2GiB", not {shown(value)}'
            )
        value = int(number(name, float(match[1]) * _UNITS[match[2].upper()]))
    return count(name, value)


def number_range(name: str, value: object) -> tuple[int, int]:
    """Return (low, high) of a whole number or of a range (low, high)."""
    low, high = value if isinstance(value, tuple | list) and len(value) == 2 else (value, value)
    low, high = count(name, low), count(name, high)
    if low > high:
        raise ValueError(f"{name} must be a number or (low, high), not ({low}, {high}): swap them")
    return low, high


def numeric(name: str, array: Any) -> NDArray[Any]:
    """Return an array of real numbers without a copy (a memory map stays one)."""
    if is_tensor(array):
        array = on_host(tensor(name, array))
    if is_dask(array):
        raise TypeError(f"{name} is a dask array, which only dense_multicut takes: use {name}.compute()")
    if hasattr(array, "toarray"):
        raise TypeError(f"{name} is a sparse matrix: convert it with .toarray() first")
    array = as_array(name, unmasked(name, array))
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}; convert it to floats first")
    return array


def as_array(name: str, rows: Any) -> NDArray[Any]:
    """Return rows as an array."""
    try:
        return np.asanyarray(rows)
    except ValueError as error:
        if isinstance(rows, list | tuple):  # the message of numpy depends on its version
            raise ValueError(f"{name} has rows of different lengths: give all as many numbers") from None
        raise ValueError(f"{name} cannot be read as an array: {shown(str(error))}") from None


def unmasked(name: str, array: Any) -> Any:
    """Return an array as it is, or raise an error if it is a masked one."""
    if np.ma.isMaskedArray(array):
        raise TypeError(f"{name} is a masked array: fill or drop the masked values first")
    return array


def is_tensor(value: Any) -> bool:
    """Return whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def on_gpu(value: Any) -> bool:
    return is_tensor(value) and value.device.type == "cuda"


def on_host(value: Any) -> Any:
    """Return a tensor as an array, without a copy if it is on the host; other values as they are."""
    if not is_tensor(value) or str(value.layout) != "torch.strided":
        return value
    value = value.detach().cpu()
    if value.is_floating_point() and value.dtype.itemsize < 4:  # numpy does not have all of these types
        value = value.float()
    return value.numpy()


def tensor(name: str, value: Any) -> Any:
    """Return a tensor of real numbers on its device, without its gradient."""
    if str(value.layout) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor: convert it with .to_dense() first")
    if value.is_complex() or value.is_quantized:
        raise TypeError(f"{name} must hold real numbers, not {value.dtype}; convert it to floats first")
    return value.detach()


def is_path(value: Any) -> bool:
    """Return whether a value names a file or a folder, or several files."""
    return isinstance(value, str | PathLike) or (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(isinstance(one, str | PathLike) for one in value)
    )


def is_dask(value: Any) -> bool:
    """Return whether a value is a dask array, without importing dask."""
    return type(value).__module__.startswith("dask.")


def is_problem(value: Any) -> bool:
    """Whether it is a `DenseProblem`, a `GraphProblem` or another kind of problem."""
    from clusterfug.problems.protocol import Solvable

    return isinstance(value, Solvable)


def rectangle(X: Any, name: str = "X") -> None:
    """Raise an error unless X, an array or a tensor, has two dimensions, neither of length 0."""
    if X.ndim != 2:
        raise ValueError(f"{name} must be 2-D, one row per item, not {X.ndim}-D; reshape it")
    if X.shape[0] == 0:
        raise ValueError(f"{name} has no rows: there is nothing to cluster")
    if X.shape[1] == 0:
        raise ValueError(f"{name} has no columns: every item needs at least one feature")


def bad_value(value: Any, row: int, column: int, name: str = "X") -> NoReturn:
    what = "is too large to square" if np.isfinite(value) else "is not finite"
    value = "NaN" if np.isnan(value) else value
    raise ValueError(
        f"{name} has a value that {what}: {value} in row {row}, column {column}; "
        "remove or replace such rows"
    )


def float_type(X: NDArray[Any]) -> type[np.float32 | np.float64]:
    """Return float32 if it represents every number of X's type, else float64."""
    return np.float64 if np.result_type(X.dtype, np.float32) != np.float32 else np.float32


def features(X: Any, name: str = "X", first: int = 0) -> NDArray[Any]:
    """Return (n, d) finite features, C-contiguous, in float32 or (if X needs it) float64; no other copy.

    `first` is the number of the first row, for errors.
    """
    if on_gpu(X):
        raise TypeError(f"{name} is a tensor on a GPU: use {name}.cpu(); dense_multicut takes it as it is")
    X = numeric(name, X)
    rectangle(X, name)
    step = max(1, _BLOCK_BYTES // (X.shape[1] * X.dtype.itemsize))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        if max(float(block.max()), -float(block.min())) <= LARGEST:  # False for NaN too
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            good = np.isfinite(block) & (np.abs(block) <= LARGEST)
        row, column = np.argwhere(~good)[0]
        bad_value(block[row, column], first + start + row, column, name)
    # Arrays from a network need not be aligned.
    return np.require(np.asarray(X), float_type(X), ["C_CONTIGUOUS", "ALIGNED"])


def per_item(name: str, values: Any, n: int) -> NDArray[np.float64]:
    """Return n finite numbers >= 0 as float64; a scalar is repeated."""
    values = numeric(name, values)
    if values.ndim == 0:
        values = np.full(n, values[()])
    if values.shape != (n,):
        raise ValueError(f"{name} must have one number per item, shape ({n},), not {values.shape}")
    result = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(result) & (result >= 0) & (result <= LARGEST)))
    if len(bad):
        raise ValueError(f"{name} must be finite and not negative: {result[bad[0]]} at item {bad[0]}")
    return result


def weights(values: Any, n: int) -> NDArray[np.float64]:
    """Return one finite number >= 0 per item, not all of them 0."""
    result = per_item("sample_weight", values, n)
    if not result.any():
        raise ValueError("sample_weight is zero everywhere: there is nothing to cluster")
    return result


def optional_weights(values: Any, n: int) -> NDArray[np.float64]:
    """Return checked weights, or ones if none are given."""
    return np.ones(n) if values is None else weights(values, n)


def costs_in_range(largest: Any, n: int) -> None:
    """Raise an error if sums of n^2 costs may leave the range of float64."""
    with np.errstate(over="ignore"):
        if not largest * float(n) ** 2 < LARGEST**2:
            raise ValueError(
                "features, weights or threshold are too large: costs leave the range of float64; "
                "scale them down"
            )


def labels(values: Any, n: int, name: str = "labels") -> NDArray[np.int64]:
    """Return n integer labels of any numbering as int64."""
    values = as_array(name, unmasked(name, on_host(values)))
    if values.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {values.dtype}")
    if values.shape != (n,):
        raise ValueError(f"{name} must have one entry per item, shape ({n},), not {values.shape}")
    return values.astype(np.int64)


def vector(name: str, values: Any) -> NDArray[np.float64]:
    """Return one or more finite numbers as float64."""
    values = np.atleast_1d(numeric(name, values)).astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} must be a list of numbers, not an array of shape {values.shape}")
    for value in values:
        number(name, float(value))
    return values


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, not {shown(value)}")
    return bool(value)


def generator(name: str, value: Any) -> np.random.Generator:
    """Return the Generator of a seed (None: a random one), or a Generator as it is."""
    if isinstance(value, np.random.RandomState):
        value = int(value.randint(2**31 - 1))
    if value is not None and not isinstance(value, np.random.Generator):
        value = count(name, value, 0)
    return np.random.default_rng(value)
