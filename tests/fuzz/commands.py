"""The command line in this process: exit code 0 and results, or 2 and one line; nothing half-written."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np

from clusterfug.cli import main
from fuzz import values
from fuzz.oracles import check, no_runtime_warnings

COMMANDS = ("cluster", "evaluate", "bound", "inspect", "convert")


def run(arguments, may_write=()):
    """Run a command; return its exit code and output. Only the files `may_write` may be new.

    `segment` reports one error per image, and keeps the others.
    """
    several = arguments[0] == "segment"
    before = set(Path().rglob("*"))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), no_runtime_warnings():
        try:
            main([str(argument) for argument in arguments])
            code = None
        except SystemExit as stop:
            code = stop.code or 0
    what = f"clusterfug {' '.join(map(str, arguments))}: "
    errors = err.getvalue()
    check(code in (0, 2), f"{what}exit {code!r}; {errors}")
    new = {str(path) for path in set(Path().rglob("*")) - before}
    if code == 2:
        lines = errors.splitlines()
        if several and len(lines) > 1:
            check("images failed" in lines.pop(), f"{what}errors {errors!r}")
        check(len(lines) == 1 or several, f"{what}errors {errors!r}")
        for line in lines:
            check(line.startswith("clusterfug: error: "), f"{what}errors {errors!r}")
            message = line.removeprefix("clusterfug: error: ")
            check(10 < len(message) < 400, f"{what}a message of {len(message)} characters: {message!r}")
            for word in ("[Errno", "Value error,", "Traceback", "<bool>", "codec can't", "must be str"):
                check(word not in message, f"{what}{message!r}")
        finished = several and "are finished" in errors
        check(finished or not out.getvalue(), f"{what}output before an error: {out.getvalue()!r}")
        check(finished or not new, f"{what}failed, and left {new}")
    else:
        check(not errors, f"{what}succeeded with errors {errors!r}")
    if code == 0 or several:
        check(new <= set(map(str, may_write)), f"{what}left {new}")
    check(not Path("executed").exists(), f"{what}a file was executed")
    return code, out.getvalue()


def commands(rng, folder):
    """Random commands with random options on small valid files."""
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    X = values.features(rng, n, d)
    np.save("x.npy", X.astype(rng.choice([np.float32, np.float64])) if np.abs(X).max() < 1e30 else X)
    np.save("y.npy", rng.integers(0, 3, size=n))
    np.save("w.npy", rng.random(n))
    Path("g.txt").write_text("MULTICUT\n0 1 2.5\n1 2 -1\n0 3 0.1\n")
    Path("f.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.4\n3 2\n0.1 0.9\n0.2 0.8\n1 0\n")
    features = str(rng.choice(["x.npy", "x.npy", "x.npy", "g.txt", "f.txt", "y.npy", "absent.npy", "."]))
    command = str(rng.choice(COMMANDS))
    outputs = (
        "out.npy",
        "out.npy.json",
        "out.npz",
        "out.csv",
        "out.csv.json",
        "out.parquet",
        "out.txt",
        "plot.png",
        "run",
    )
    arguments = [command]
    if command == "evaluate":
        arguments += [str(rng.choice(["y.npy", "x.npy", "absent.csv"]))]
        arguments += ["--features", features] if rng.random() < 0.7 else []
        arguments += ["--truth", "y.npy"] if rng.random() < 0.3 else []
    elif command == "convert":
        arguments += [
            features,
            str(
                rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet", "out.txt", "out.xyz", "x.npy"])
            ),
        ]
    else:
        arguments += [features]
    if command == "cluster" and rng.random() < 0.8:
        arguments += [
            "-o",
            str(
                rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet", "out", "no/out.npy", "out.h5"])
            ),
        ]
    if command == "bound" and rng.random() < 0.5:
        arguments += ["-o", "out.npz"] if rng.random() < 0.7 else ["--labels", "y.npy"]
    arguments += options(rng)
    code, out = run(arguments, [*outputs, *[str(p) for p in Path("run").rglob("*")]])
    run_files = [p for p in Path().rglob("*") if p.parts[0] == "run"]
    check(all(not p.name.startswith(".") for p in run_files), f"temporary files are left: {run_files}")
    if code == 0 and "--json" in arguments:
        json.loads(out)
    if code == 0 and command == "cluster" and Path("out.npy").exists():
        check(np.load("out.npy").shape[0] >= 1, "labels are empty")
        run(
            ["evaluate", "out.npy", "--features", features, "--json", *weights_again(arguments)]
        ) if features != "g.txt" else None


def weights_again(arguments):
    """The options of `evaluate` that label files do not hold."""
    return ["--weights", arguments[arguments.index("--weights") + 1]] if "--weights" in arguments else []


def options(rng):
    """A few options, most with a value that makes sense."""
    number = str(
        rng.choice(
            ["0.4", "0", "-0.2", "1e5", "nan", "inf", "x", "1e400", "", "0x10", "0.4,0.5", "-1", "2"]
        )
    )
    count = str(rng.choice(["1", "2", "5", "0", "-3", "1.5", "x", "99999999999999999999"]))
    known = [
        ["--threshold", str(rng.choice([number, "local", "auto", "Local"]))], ["-t", number],
        ["--strictness", number], ["--n-neighbors", count],
        ["--n-clusters", str(rng.choice([count, "2:4", "4:2", ":"]))],
        ["--alpha", str(rng.choice([number, "w.npy", "y.npy", "absent.npy"]))],
        ["--prefer", str(rng.choice(["small", "large", "none"]))],
        ["--weights", str(rng.choice(["w.npy", "x.npy", "no.csv"]))],
        ["--metric", str(rng.choice(["cosine", "inner_product", "euclid"]))], ["--center"],
        ["--no-center"], ["--json"], ["--json"],
        ["--algorithm", str(rng.choice(["auto", "fast", "gaec", "dlaec", "exact", "kmeans", ""]))],
        ["--refine"], ["--init", str(rng.choice(["y.npy", "x.npy"]))], ["--time-limit", number],
        ["--seed", count], ["-k", count], ["--ann", "hnsw"],
        ["--device", str(rng.choice(["cpu", "cuda", "tpu"]))], ["--bound"],
        ["--memory-limit", str(rng.choice(["1KB", "1MB", "2", "x", "0", "-1", "nan"]))],
        ["--checkpoint", "run"],
        ["--thresholds", str(rng.choice(["0.2:0.8:3", "0:1", "a:b:c", "0.1:0.2:0", "0:1:2000"]))],
        ["--plot", "plot.png"], ["--nonsense"], ["--method", str(rng.choice(["auto", "trivial", "x"]))],
        ["extra"],
    ]  # fmt: skip
    chosen = rng.choice(len(known), size=rng.integers(0, 4), replace=False)
    return [part for at in chosen for part in known[at]]
