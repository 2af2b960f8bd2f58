"""Lower bounds of a problem, less their rounding errors, on the CPU or (the trivial bound) on a device.

`api.lower_bound`, selection and execution on a device call `compute_bound`; solvers on the CPU call
`bound_problem`.
"""

from dataclasses import replace
from typing import Any

from clusterfug import checks
from clusterfug.bounds.certificate import Certificate, LowerBound, add_up, rounded_up
from clusterfug.execution.jit import Progress, clock
from clusterfug.execution.plan import Execution
from clusterfug.problems.protocol import Problem

METHODS = ("trivial", "triangles", "auto")
#: "auto" packs triangles for up to this many items.
MAX_ITEMS_FOR_TRIANGLES = 100_000


def check_limits(
    method: str, time_limit: float | None, memory_limit: int | None, execution: Execution
) -> None:
    """Raise the errors of the arguments of `lower_bound`, before any work."""
    checks.one_of("method", method, METHODS)
    checks.time_limit(time_limit)
    if method == "trivial":
        if time_limit is not None:
            raise ValueError("time_limit is for packing triangles: leave it out with method='trivial'")
        if memory_limit is not None and execution.device is None:
            raise ValueError("memory_limit is for triangles or a GPU: leave it out with method='trivial'")


def compute_bound(
    problem: Any,
    execution: Execution,
    *,
    method: str = "auto",
    time_limit: float | None = None,
    memory_limit: int | None = None,
    callback: Progress | None = None,
) -> LowerBound:
    """Return a lower bound: the trivial one on the device of the execution, triangles on the CPU."""
    begin = clock()
    device = execution.device
    if device is not None and _resolved(method, problem.shape[0]) == "trivial":
        from clusterfug.execution.torch.repulsion import total_repulsion

        value, error = total_repulsion(problem, device, memory_limit, callback)
        seconds = clock() - begin
        return LowerBound(value - 2 * error, 2 * error, "trivial", Certificate.empty(), seconds)
    return bound_problem(problem.resolved(), method, time_limit, memory_limit, callback, begin)


def bound_problem(
    problem: Problem,
    method: str = "auto",
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
    begin: float | None = None,
) -> LowerBound:
    """Return a lower bound of a problem on the CPU."""
    begin = clock() if begin is None else begin
    problem = problem.reduced().problem
    method = _resolved(method, problem.n)
    certificate = Certificate.empty()
    if method == "triangles":
        certificate = problem.pack_triangles(memory_limit, time_limit, progress)
    value, error, residual = add_up(problem, certificate, problem.repulsion(certificate.pairs, progress))
    certificate = replace(certificate, residual=residual)
    # The rounding error is subtracted twice: for the bound, and for the objective it is compared with.
    value = rounded_up(problem, value - 2 * error)
    return LowerBound(value, 2 * error, method, certificate, clock() - begin)


def _resolved(method: str, n: int) -> str:
    """Return "trivial" or "triangles"."""
    return method if method != "auto" else "trivial" if n > MAX_ITEMS_FOR_TRIANGLES else "triangles"
