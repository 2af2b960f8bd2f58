"""Speed and quality of solving on a GPU: seconds, inside, peak memory and the share of the GEMM rate.

    CLUSTERFUG_DATA=... python benchmarks/gpu.py [--quick] [--only NAME ...] [--device cpu] [--out FILE]

It needs torch (and triton on a GPU) and the dependencies of clusterfug. Mixtures are built on the device.
Seconds are synchronised with the device: the median of some runs after a first one, which compiles the
kernels (for a large problem, on a twentieth of the items). G is the time of one product of all pairs at the
measured rate of a bfloat16 GEMM; `fraction` is the share of that rate that a run reaches, by its number of
passes. One more run selects its threshold ("auto"). `--quick --device cpu` is a test on small CPU
tensors; targets and limits are for full sizes on one H200. The JSON file is written after every row.
"""

import argparse
import json
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

try:
    from clusterfug import dense_multicut, solve_many
except ImportError:  # not installed
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    from clusterfug import dense_multicut, solve_many

OUT = Path(__file__).parent / "out" / "gpu.json"
BLOCK = 1 << 26  # numbers of a block while mixtures are built and costed
NOISE = (0.7, 1.3)  # range of the norm of the noise, which is uniform
LARGE = 10**6  # with more items kernels are compiled on a part of them, and at most two runs are timed

#: Problems of `many`: their number, the range of their sizes, and how many are also solved one by one.
MANY, SMALLEST, LARGEST, SAMPLE = 1631, 500, 43_000, 60


class Stored(NamedTuple):
    """Features of a shared data set; the target is a share of the inside of `auto` on the CPU.

    These numbers are results of `python benchmarks/quality.py` (the table in README.md).
    """

    name: str
    threshold: float
    limit: float  # seconds
    on_cpu: dict
    share: float = 0.99


class Mixture(NamedTuple):
    """Unit vectors around random centres; the target is the inside of the planted clusters."""

    name: str
    n: int
    d: int
    centres: int
    threshold: float
    limit: float
    memory: float | None = None  # GB


CASES = (
    Stored("tinyimagenet-5k", 0.4, 0.12, {"auto": 12_130, "best": 12_307}),
    Mixture("mixture-50k", 50_000, 2048, 1000, 0.2, 0.3),
    Stored("tinyimagenet-50k", 0.4, 0.4, {"auto": 1_209_691, "best": 1_214_376}),
    Mixture("mixture-1.3m-256", 1_281_167, 256, 1000, 0.25, 12),
    Mixture("mixture-1.3m-2048", 1_281_167, 2048, 1000, 0.2, 30, memory=64),
)


def main():
    chosen = options()
    device = torch.device(chosen.device)
    rate = gemm_rate(device, 1024 if chosen.quick else 8192)
    print(f"{where(device)}: {rate / 1e12:,.1f} TFLOP/s of a bfloat16 GEMM", flush=True)
    about = {
        "device": where(device),
        "torch": torch.__version__,
        "quick": chosen.quick,
        "GEMM FLOP/s": rate,
    }
    work = [(case.name, partial(measure, case)) for case in CASES] + [("many", many)]
    rows = []
    for name, make in work:
        row = make(chosen, device) if not chosen.only or name in chosen.only else None
        if row is not None:
            rows.append(finished(row, rate, chosen.quick))
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
        if device.type == "cuda":
            torch.cuda.empty_cache()
    table(rows)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these rows")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="where the tensors are")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one repetition")
    parser.add_argument("--data", metavar="FOLDER", default=os.environ.get("CLUSTERFUG_DATA"), type=Path)
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default 3)")
    parser.add_argument("--out", type=Path, default=OUT, help=f"JSON file (default {OUT})")
    chosen = parser.parse_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no CUDA GPU here; try it out with --quick --device cpu")
    chosen.repeat = 1 if chosen.quick else chosen.repeat
    return chosen


# Rows


def measure(case, chosen, device):
    """Return the row of one problem: a first run, then timed runs; None if its data is missing."""
    features = stored if isinstance(case, Stored) else planted
    X, target = features(case, chosen, device)
    if X is None:
        print(f"{case.name} is left out: it is not in --data or CLUSTERFUG_DATA", flush=True)
        return None
    n, d = X.shape
    large = n > LARGE

    def solve(X):
        return dense_multicut(X, case.threshold, device=device, metric="inner_product")

    first_seconds, first = timed(lambda: solve(X[: n // 20] if large else X), device)
    forget_peak(device)
    repeat = min(chosen.repeat, 2) if large else chosen.repeat
    runs = [timed(lambda: solve(X), device) for _ in range(repeat)]
    found = [result for _, result in runs]
    last = found[-1].trace[-1]
    peaked = peak(device)
    auto_seconds, auto = timed(
        lambda: dense_multicut(X, "auto", device=device, metric="inner_product"), device
    )
    print(f"  threshold chosen in {auto_seconds:.3f} s: {auto.n_clusters:,} clusters, {auto.choice.reason}")
    on_cpu = getattr(case, "on_cpu", {}) if not chosen.quick else {}
    return {
        "name": case.name,
        "n": n,
        "d": d,
        "threshold": case.threshold,
        "all seconds": [seconds for seconds, _ in runs],
        "first seconds": first_seconds,
        "limit": case.limit,
        "inside": found[-1].inside,
        "target": target,
        "clusters": last.n_clusters,
        "move-optimal": last.move_optimal,
        "join-optimal": last.join_optimal,
        "passes": last.passes,
        "peak GB": peaked,
        "auto threshold": {
            "seconds": auto_seconds,
            "clusters": auto.n_clusters,
            "strictness": auto.choice.strictness,
            "tried": auto.choice.candidates.tolist(),
        },
        "peak limit": getattr(case, "memory", None),
        "features GB": X.nbytes / 1e9,
        "same labels": same([[result] for result in (found if large else [first, *found])]),
        "pairs": n * n,
        "of best": found[-1].inside / on_cpu["best"] if on_cpu else None,
        "of auto": found[-1].inside / on_cpu["auto"] if on_cpu else None,
        "phases": {phase.name: phase.seconds for phase in found[-1].trace},
    }


def stored(case, chosen, device):
    """Return features of a shared data set on the device, and the target."""
    names = (f"{case.name}/features.npy", f"{case.name}.npy") if chosen.data else ()
    file = next((chosen.data / name for name in names if (chosen.data / name).exists()), None)
    if file is None:
        return None, None
    X, on_cpu = np.load(file).astype(np.float32), case.on_cpu["auto"]
    if chosen.quick:
        X = X[np.random.default_rng(0).permutation(len(X))[:250]]
        on_cpu = dense_multicut(X, case.threshold, metric="inner_product").inside
    return torch.from_numpy(X).to(device), case.share * on_cpu


def planted(case, chosen, device):
    """Return features of a mixture on the device, and the target."""
    if chosen.quick:
        case = case._replace(n=2000, d=case.d // 8, centres=25)
    X, labels = unit_mixture(case.n, case.d, case.centres, device, seed=0)
    return X, planted_inside(X, labels, case.threshold)


def same(runs):
    """Return whether all runs gave the same labels; None if there is only one."""
    if len(runs) == 1:
        return None
    pairs = [pair for run in runs[1:] for pair in zip(runs[0], run, strict=True)]
    return all(np.array_equal(a.labels, b.labels) for a, b in pairs)


def many(chosen, device):
    """Return the row of many problems at once; a sample over all sizes is also solved one by one."""
    count, largest, sample, d = (12, 1500, 4, 32) if chosen.quick else (MANY, LARGEST, SAMPLE, 128)
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(largest), size=count)).astype(int)
    problems = [
        unit_mixture(n, d, max(2, n // 400), device, seed=t, unequal=True)[0]
        for t, n in enumerate(sizes.tolist())
    ]

    def solve():
        return solve_many(problems, threshold=0.25, device=device, metric="inner_product")

    by_size = np.argsort(sizes, kind="stable")
    some = by_size[np.linspace(0, count - 1, sample).round().astype(int)].tolist()
    first_seconds, first = timed(solve, device)
    forget_peak(device)
    runs = [timed(solve, device) for _ in range(min(chosen.repeat, 2))]
    found, memory = runs[-1][1], peak(device)
    dense_multicut(problems[some[0]], 0.25, device=device, metric="inner_product")
    alone_seconds, alone = timed(
        lambda: [dense_multicut(problems[t], 0.25, device=device, metric="inner_product") for t in some],
        device,
    )
    last = [result.trace[-1] for result in found]
    pairs = (sizes.astype(float) ** 2).tolist()
    return {
        "name": "many",
        "n": int(sizes.sum()),
        "d": d,
        "threshold": 0.25,
        "all seconds": [seconds for seconds, _ in runs],
        "first seconds": first_seconds,
        "limit": 60,
        "inside": sum(found[t].inside for t in some),
        "target": 0.995 * sum(result.inside for result in alone),
        "clusters": sum(result.n_clusters for result in found),
        "move-optimal": all(phase.move_optimal for phase in last),
        "join-optimal": all(phase.join_optimal for phase in last),
        "passes": weighted_mean([phase.passes for phase in last], pairs),
        "peak GB": memory,
        "peak limit": None,
        "features GB": sum(X.nbytes for X in problems) / 1e9,
        "same labels": same([first, *(results for _, results in runs)]),
        "pairs": sum(pairs),
        "of best": None,
        "problems": count,
        "sample": sample,
        "worst of the sample": min(found[t].inside / a.inside for t, a in zip(some, alone, strict=True)),
        "one by one, scaled up": alone_seconds * sum(pairs) / sum(pairs[t] for t in some),
        "one by one, per problem": alone_seconds * count / sample,
    }


def weighted_mean(values, weights):
    return sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)


def finished(row, rate, quick):
    """Return and print the row with its derived figures."""
    row["seconds"] = statistics.median(row["all seconds"])
    row["share of target"] = row["inside"] / row["target"]
    row["G"] = 2 * row["d"] * row.pop("pairs") / rate
    row["fraction"] = row["passes"] * row["G"] / row["seconds"]
    good = row["inside"] >= row["target"] * (1 - 1e-9)
    fits = None in (row["peak GB"], row["peak limit"]) or row["peak GB"] < row["peak limit"]
    row["holds"] = "quick" if quick else "yes" if good and fits and row["seconds"] <= row["limit"] else "no"
    print(row, flush=True)
    return row


# Mixtures


def unit_mixture(n, d, centres, device, seed, unequal=False):
    """Return unit vectors in float32, each a random unit centre plus noise; and the centre of each."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=device)

    middle = torch.nn.functional.normalize(normal(centres, d))
    shares = torch.ones(centres, device=device)
    if unequal:
        shares = 0.05 + torch.rand(centres, generator=generator, device=device)
    planted = torch.multinomial(shares, n, replacement=True, generator=generator)
    X = torch.empty(n, d, device=device)
    step = max(1, BLOCK // d)
    for rows, of in zip(X.split(step), planted.split(step), strict=True):
        length = torch.empty(len(of), 1, device=device).uniform_(*NOISE, generator=generator)
        noise = torch.nn.functional.normalize(normal(len(of), d))
        rows.copy_(torch.nn.functional.normalize(middle[of] + length * noise))
    return X, planted


def planted_inside(X, labels, threshold):
    """Return costs inside clusters, (|sum|^2 - sum of |.|^2) / 2 in float64, independent of the solver."""
    count = torch.bincount(labels).double()
    sums = torch.zeros(len(count), X.shape[1], dtype=torch.float64, device=X.device)
    own = 0.0
    for rows, of in zip(*(x.split(max(1, BLOCK // X.shape[1])) for x in (X, labels)), strict=True):
        rows = rows.double()
        sums.index_add_(0, of, rows)
        own += float(rows.square().sum())
    return (float(sums.square().sum()) - own - threshold * float((count**2 - count).sum())) / 2


# Device


def timed(function, device):
    """Return the seconds until the device is done, and the result of the function."""
    synchronise(device)
    start = time.perf_counter()
    result = function()
    synchronise(device)
    return time.perf_counter() - start, result


def synchronise(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def forget_peak(device):
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def peak(device):
    """Return the peak memory of tensors in GB since `forget_peak`, features included."""
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None


def where(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU tensors"


def gemm_rate(device, size, repeat=10):
    """Return FLOP per second of a bfloat16 product of two square matrices."""
    a, b = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))

    def products():
        for _ in range(repeat):
            a @ b

    timed(products, device)
    return 2 * size**3 * repeat / timed(products, device)[0]


# Report

COLUMNS = (
    "name", "n", "d", "seconds", "limit", "first seconds", "inside", "share of target", "of best",
    "clusters", "move-optimal", "join-optimal",
    "same labels", "peak GB", "passes", "G", "fraction", "holds",
)  # fmt: skip


def table(rows):
    """Print the rows as aligned text: rich may not be installed where the GPU is."""
    lines = [COLUMNS, *([shown(row[name]) for name in COLUMNS] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def shown(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
