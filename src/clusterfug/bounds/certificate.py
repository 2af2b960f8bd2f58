"""Lower bounds and their certificates, data from which a bound can be recomputed. `compute.py` makes them.

Clusterings satisfy the triangle inequalities: if u and v are separated, then so are u and w, or w and v. So
for any amount >= 0, adding it to the cost of (u, v) and subtracting it from (u, w) and (w, v) increases the
objective of no clustering. After all such changes each pair has a *residual* cost, and the sum of the
negative residuals is a lower bound on every objective. A certificate consists of the triangles, their
amounts, and the residuals of the pairs that they touch; residuals and triangles add up to the costs.
"""

import math
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.bounds.pairs import Repulsion
from clusterfug.execution.jit import Progress
from clusterfug.problems.protocol import Problem

_EPSILON = float(np.finfo(np.float64).eps)
#: If the rounding errors of all costs are up to this share of a bound, all of them count.
NEGLIGIBLE_ERROR = 1e-10


@dataclass(frozen=True, eq=False)
class Certificate:
    """Changes of costs that increase the objective of no clustering, and the residual costs.

    Attributes
    ----------
    pairs : int32 array of shape (m, 2)
        The pairs i < j that triangles touch, sorted.
    residual : float64 array of shape (m,)
        Their costs after all changes. Other pairs keep their costs.
    triangles : int32 array of shape (t, 3)
        Row numbers of `pairs`: the cost of the first is raised, those of the other two are lowered.
    amounts : array of shape (t,)
        The change of each, >= 0.
    """

    pairs: NDArray[np.int32]
    residual: NDArray[np.float64]
    triangles: NDArray[np.int32]
    amounts: NDArray[Any]

    @classmethod
    def empty(cls) -> "Certificate":
        """Return the certificate without triangles, that of the trivial bound."""
        return cls(
            np.empty((0, 2), dtype=np.int32), np.empty(0), np.empty((0, 3), dtype=np.int32), np.empty(0)
        )

    def changes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the change of the cost of each pair, and upper bounds on the rounding errors."""
        m, amounts = len(self.pairs), self.amounts.astype(np.float64)
        raised, *lowered = (np.bincount(e, amounts, m).astype(np.float64) for e in self.triangles.T)
        touched = raised + lowered[0] + lowered[1]
        counts = np.bincount(self.triangles.ravel(), minlength=m)
        return raised - lowered[0] - lowered[1], _EPSILON * (counts + 4) * touched

    def is_sound(self, n: int) -> bool:
        """Return whether the arrays are well-formed for n items: sorted pairs, triangles, amounts >= 0."""
        pairs, triangles, amounts = self.pairs, self.triangles, self.amounts
        kinds = "".join(x.dtype.kind for x in (pairs, triangles, amounts, self.residual))
        if not re.fullmatch("[iu]{2}ff", kinds) or pairs.ndim != 2 or triangles.ndim != 2:
            return False
        m, t = len(pairs), len(triangles)
        shapes = pairs.shape, self.residual.shape, triangles.shape, amounts.shape
        if shapes != ((m, 2), (m,), (t, 3), (t,)):
            return False
        if m and (pairs.min() < 0 or pairs.max() >= n or np.any(pairs[:, 0] >= pairs[:, 1])):
            return False
        if np.any(np.diff(pairs[:, 0].astype(np.int64) * n + pairs[:, 1]) <= 0):
            return False
        if not np.all((amounts >= 0) & np.isfinite(amounts)) or not np.all(np.isfinite(self.residual)):
            return False
        if t and (triangles.min() < 0 or triangles.max() >= m):
            return False
        # Three pairs are a triangle if their six ends are three items twice each.
        ends = np.sort(pairs[triangles].reshape(t, 6), axis=1)
        return bool(np.all(ends[:, 0::2] == ends[:, 1::2]) and np.all(np.diff(ends[:, 0::2]) > 0))


@dataclass(frozen=True, eq=False)
class LowerBound:
    """No clustering of the problem has a smaller objective: ``float(bound)``.

    Attributes
    ----------
    value : float
        The bound, less twice an upper bound on its rounding error. (If the costs of a graph are integers,
        so are all objectives: then it is rounded up to the next integer.)
    rounding : float
        What was subtracted for rounding. An objective within twice this of the bound counts as optimal.
    method : {"trivial", "triangles", "exact"}
    certificate : Certificate or None
        The proof, which `verify_bound` checks. None for "exact", which proves by enumeration.
    seconds : float
    """

    value: float
    rounding: float
    method: str
    certificate: Certificate | None
    seconds: float

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"LowerBound({self.value:.2f}, method={self.method!r}, seconds={self.seconds:.2f})"

    def save(self, path: Any) -> None:
        """Write the bound and its certificate to a .npz file."""
        if self.certificate is None:
            raise ValueError(f"a bound of {self.method} has no certificate to write")
        from clusterfug.io.files import complete

        with complete(Path(path)) as part, part.open("wb") as file:
            numbers: dict[str, Any] = {name: v for name, v in vars(self).items() if name != "certificate"}
            np.savez_compressed(file, **numbers, **vars(self.certificate))

    @classmethod
    def load(cls, path: Any) -> "LowerBound":
        """Return the bound that `save` wrote."""
        from clusterfug.io.files import read_archive

        try:
            values = read_archive(Path(path))
            certificate = Certificate(*(values[field.name] for field in fields(Certificate)))
            value, rounding, seconds = (float(values[x]) for x in ("value", "rounding", "seconds"))
            return cls(value, rounding, str(values["method"]), certificate, seconds)
        except (KeyError, ValueError, TypeError) as error:
            raise ValueError(
                f"{path} is no file of a lower bound: write one with clusterfug bound -o"
            ) from error


def add_up(
    problem: Problem, certificate: Certificate, found: Repulsion
) -> tuple[float, float, NDArray[np.float64]]:
    """Return the sum of the negative residuals, an upper bound on its rounding error, and the residuals.

    Of pairs that every clustering cuts positive residuals count, too.
    No objective is below the sum less the error. If the error of all pairs is not negligible, only pairs
    that may repel are counted: huge costs of pairs that attract do not hide small ones.
    """
    change, error = certificate.changes()
    always_cut = problem.always_cut(certificate.pairs)
    residual = found.aside + change
    error += 4 * _EPSILON * np.abs(found.aside)
    uncertain = (residual <= error + problem.pair_errors(certificate.pairs)) | always_cut
    value = found.total + float(np.where(always_cut, residual, np.minimum(residual, 0.0)).sum())
    rounding = problem.cost_error()
    if rounding > NEGLIGIBLE_ERROR * abs(value):
        rounding = problem.repulsion_error() + problem.cost_error(certificate.pairs[uncertain])
    rounding += found.error + float(error[uncertain].sum()) + 64 * _EPSILON * abs(value)
    return value, rounding, residual


def rounded_up(problem: Problem, value: float) -> float:
    """Return the bound, rounded up to an integer if all objectives of the problem are integers."""
    return float(math.ceil(value)) if problem.has_whole_costs else value


def verify(problem: Problem, bound: LowerBound, progress: Progress | None = None) -> bool:
    """Return whether the certificate of a bound proves it; see `api.verify_bound`."""
    if not isinstance(bound, LowerBound):
        raise TypeError(f"bound must be what lower_bound returns, not {type(bound).__name__}")
    certificate, problem = bound.certificate, problem.reduced().problem
    if certificate is None:
        raise ValueError(f"a bound of {bound.method} has no certificate: there is nothing to add up")
    if not np.isfinite(bound.value) or not certificate.is_sound(problem.n):
        return False
    repulsion = problem.repulsion(certificate.pairs, progress)
    with np.errstate(over="ignore", invalid="ignore"):  # of false numbers: they do not add up
        return _is_proven(problem, bound, certificate, repulsion)


def _is_proven(problem: Problem, bound: LowerBound, certificate: Certificate, found: Repulsion) -> bool:
    """Return whether a certificate with sound arrays proves a bound."""
    value, error, residual = add_up(problem, certificate, found)
    tolerance = 4 * (problem.pair_errors(certificate.pairs) + certificate.changes()[1])
    adds_up = np.all(np.abs(residual - certificate.residual) <= tolerance)
    rounding_is_true = 0 <= bound.rounding <= 2.001 * error
    return bool(adds_up) and rounding_is_true and bound.value <= rounded_up(problem, value - error)
