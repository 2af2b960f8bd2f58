"""Kill commands, and check what they leave: ``PYTHONPATH=tests python -m fuzz.kill --times 200 --seed 1``.

SIGKILL comes at a random time, or right before or after a random call that changes files. Every output has
to be the old or the new one, complete, or absent; repeated to its end, the command has to write the same
bytes as if it had not been killed. Incomplete files with hidden names may remain beside an output, where no
command reads them, but not in the folder of a checkpoint or of an unfinished run. Exits 1 if anything is
wrong. `tests/fuzz/test_kill.py` checks the same at every such call, without processes.
"""

import argparse
import builtins
import collections
import functools
import io
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from makers import mixture, save_encoder, save_images

from fuzz.oracles import check

#: Functions by which files appear, disappear, change or last.
CALLS = [(os, name) for name in ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")]
CALLS += [(io, "open"), (builtins, "open")]
_OPEN = open
#: Imported before the clock starts.
MODULES = ("core", "embedding.pipeline", "execution.sharded.solve", "io.tables", "segmentation.outputs")
INPUTS = ("encoder.onnx", "images", "parts", "samples", "x.npy", "g.gr", "older.gr")
#: Folders of unfinished work.
WORK = ("features.npy.partial", "run")


class Scenario(NamedTuple):
    """A command, and the one that has written an older output; and the file that appears last, if any."""

    command: str
    older: str
    last: str | None = None
    resumes: bool = False
    repeats: bool = True  # also when its output exists


def _cluster(output: str) -> Scenario:
    return Scenario(f"cluster x.npy -t 0.4 -o {output}", f"cluster x.npy -t 0.7 -o {output}", output)


def _segment(form: str, last: str | None = None) -> Scenario:
    command = f"segment samples --things 26 --format {form} --overlays -o out --overwrite"
    return Scenario(command, f"{command} --min-size 200", last)


SCENARIOS = {
    "npy": _cluster("labels.npy"),
    "npz": _cluster("labels.npz"),
    "csv": _cluster("labels.csv"),
    "parquet": _cluster("labels.parquet"),
    "folder": Scenario("cluster parts -t 0.4 -o out", "", repeats=False),
    "checkpoint": Scenario(
        "cluster x.npy -t 0.4 --memory-limit 0.5MB --checkpoint run -o labels.npy",
        "cluster x.npy -t 0.7 --memory-limit 0.5MB -o labels.npy",
        "labels.npy",
        resumes=True,
    ),
    "multicut": Scenario(
        "multicut g.gr --edits edits.txt -o labels.npy",
        "multicut older.gr --edits edits.txt -o labels.npy",
        "labels.npy",
    ),
    "embed": Scenario(
        "embed images encoder.onnx --size 16 --batch 3 -o features.npy",
        "embed images/even encoder.onnx --size 12 -o features.npy",
        "features.npy",
        resumes=True,
    ),
    "segment npy": _segment("npy"),
    "segment coco": _segment("coco", "out/panoptic.json"),
    "segment cityscapes": _segment("cityscapes"),
}


def make_inputs(folder: Path) -> None:
    """Write features, images with an encoder, and embeddings of pixels."""
    rng = np.random.default_rng(0)
    X = mixture(rng, 2600, 12, d=4, noise=0.5)[0].astype(np.float32)
    np.save(folder / "x.npy", X)
    for name, size in (("g", 6), ("older", 9)):
        pairs = [(u, v) for u in range(1, 37) for v in range(u + 1, 37)]
        edges = [f"{u} {v}\n" for u, v in pairs if (u % size == v % size) != (rng.random() < 0.05)]
        (folder / f"{name}.gr").write_text(f"p cep 36 {len(edges)}\n{''.join(edges)}")
    (folder / "parts").mkdir()
    np.save(folder / "parts" / "a.npy", X[:400])
    np.save(folder / "parts" / "b.npy", X[400:600])
    save_encoder(folder / "encoder.onnx")
    images = save_images(folder / "images", rng)
    for at, path in enumerate(sorted(images.iterdir())):
        (images / ("even", "odd")[at % 2]).mkdir(exist_ok=True)
        path.rename(images / ("even", "odd")[at % 2] / path.name)
    (images / "odd" / "broken.png").write_bytes(b"broken")
    (folder / "samples").mkdir()
    for name in ("first", "second"):
        truth = np.kron(rng.permutation([1, 2, 3, 0])[None], np.ones((16, 1), dtype=int))
        truth = np.repeat(
            truth, [4, 8, 14, 6], axis=1
        )  # two of the objects are smaller than the older --min-size
        np.savez(
            folder / "samples" / f"{name}.npz",
            embeddings=(np.eye(5)[truth] + 0.02 * rng.normal(size=(16, 32, 5))).astype(np.float16),
            semantic=np.where(truth > 0, 26, 7),
            image=rng.integers(256, size=(16, 32, 3), dtype=np.uint8),
        )


def outputs(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files that a command has written; not of hidden or unfinished ones."""
    names = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {
        name.as_posix(): path.read_bytes()
        for name, path in sorted(names.items())
        if name.parts[0] not in INPUTS + WORK and not any(part.startswith(".") for part in name.parts)
    }


def check_killed(
    scenario: Scenario, folder: Path, before: dict[str, bytes], whole: dict[str, bytes]
) -> str:
    """Raise an error if a killed command has left anything incomplete; return what is there."""
    now = outputs(folder)
    for name, content in now.items():
        check(content in (before.get(name), whole.get(name)), f"{name} is neither the old nor the new one")
    last = scenario.last
    missing = [name for name in before if name in whole and name not in now]
    if last is not None and last.endswith(".json"):
        missing = [name for name in missing if name != last]  # removed before its pictures change
    check(not missing, f"old outputs are missing: {missing}")
    if now == whole:
        return "new"
    if last in now:
        check(now[last] == before.get(last), f"{last} is there before the others are")
        if any(now.get(name) != before.get(name) for name in companions(scenario, now)):
            check_mixed(scenario, folder)
    return "old" if now == before else "between"


def companions(scenario: Scenario, now: dict[str, bytes]) -> list[str]:
    """Return the outputs that belong to the one that appears last: of labels only their settings."""
    settings = f"{scenario.last}.json"
    return [settings] if "labels" in str(scenario.last) else list(now)


def check_mixed(scenario: Scenario, folder: Path) -> None:
    """Raise an error unless an old output whose companions are new is known not to belong to them."""
    from clusterfug.io.labels import LabelFile, read_labels

    if "labels" in str(scenario.last):
        path = folder / str(scenario.last)
        try:
            LabelFile(path, read_labels(path)).settings()
        except ValueError as error:
            check("belong to other labels" in str(error), str(error))
        else:
            check(False, f"{path.name} has the settings of other labels")
    else:
        unfinished = (folder / f"{scenario.last}.partial").exists()
        check(unfinished, f"{scenario.last} is the old one, and files that belong to it are new")


def check_finished(folder: Path, whole: Path) -> int:
    """Raise an error if outputs differ, or unfinished work is left; return the number of hidden files."""
    now, wanted = outputs(folder), outputs(whole)
    different = sorted(name for name in now.keys() | wanted if now.get(name) != wanted.get(name))
    check(not different, f"other outputs than without a kill: {different}")
    left = {name: _names(folder / name) - _names(whole / name) for name in WORK}
    check(not any(left.values()), f"unfinished work is left: {left}")
    return sum(path.name.startswith(".") for path in folder.rglob("*"))


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} | {"."} if folder.exists() else set()


def around_calls(function, setattr=setattr):
    """Call a function right before and after every call that changes files in the current folder."""
    folder = os.getcwd()

    def changes(call, target, mode="r", *_, **options):
        if call is _OPEN and set("wax+").isdisjoint(options.get("mode", mode)):
            return False
        return isinstance(target, int) or os.path.abspath(target).startswith(folder)

    def wrapped(call):
        @functools.wraps(call)
        def around(*arguments, **options):
            is_change = changes(call, *arguments, **options)
            if is_change:
                function()
            try:
                return call(*arguments, **options)
            finally:
                if is_change:
                    function()

        return around

    for module, name in CALLS:
        setattr(module, name, wrapped(getattr(module, name)))


def child(moment: int, command: list[str]) -> None:
    """Run a command in this process; kill it at a moment, counted by `around_calls`."""
    from clusterfug.cli import main

    logging.getLogger("clusterfug").setLevel(logging.ERROR)  # that kernels are compiled is no finding
    for name in MODULES:
        import_module(f"clusterfug.{name}")
    moments = itertools.count()
    around_calls(lambda: next(moments) == moment and os.kill(os.getpid(), signal.SIGKILL))
    print("begin", flush=True)
    try:
        main(command)
    finally:
        print(f"\nend {next(moments)}", flush=True)


class Run(NamedTuple):
    code: int
    seconds: float
    moments: int | None  # None if it was killed
    errors: str


def run(folder: Path, command: str, moment: int = -1, seconds: float | None = None) -> Run:
    """Run a command in a process of its own; kill it at a moment or after seconds, if given."""
    arguments = [sys.executable, "-m", "fuzz.kill", "--child", str(moment), *command.split()]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            arguments, cwd=folder, env=_environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        process.stdout.readline()  # "begin"
        start = time.perf_counter()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        out = process.stdout.read()
        duration = time.perf_counter() - start
        process.wait()
        errors.seek(0)
        end = out.splitlines()[-1:] or [""]
        moments = int(end[0].split()[1]) if end[0].startswith("end ") else None
        return Run(process.returncode, duration, moments, errors.read())


def _environment() -> dict[str, str]:
    tests = str(Path(__file__).resolve().parents[1])
    return os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}


class Case(NamedTuple):
    """A scenario with or without an older output: the folder before it and after it, and its length."""

    scenario: Scenario
    before: Path
    whole: Path
    seconds: float
    moments: int


def prepare(scenario: Scenario, inputs: Path, folder: Path, has_older: bool) -> Case:
    """Run a scenario without a kill, twice: the second time all kernels are compiled."""
    before, whole = folder / "before", folder / "whole"
    shutil.copytree(inputs, before)
    if has_older:
        _succeed(before, scenario.older)
    for _ in range(2):
        shutil.rmtree(whole, ignore_errors=True)
        shutil.copytree(before, whole)
        found = _succeed(whole, scenario.command)
    check(outputs(before) != outputs(whole), f"{scenario.command}: the older output is the same")
    return Case(scenario, before, whole, found.seconds, found.moments)


def _succeed(folder: Path, command: str) -> Run:
    found = run(folder, command)
    check((found.code, found.errors) == (0, ""), f"{command}: exit {found.code}; {found.errors}")
    return found


def kill_and_repeat(
    case: Case, folder: Path, rng: np.random.Generator, counts: collections.Counter
) -> None:
    """Kill a command once, or several times if it resumes, and repeat it until it ends."""
    scenario = case.scenario
    before, whole = outputs(case.before), outputs(case.whole)
    shutil.copytree(case.before, folder)
    for _ in range(int(rng.integers(1, 4)) if scenario.resumes else 1):
        if rng.random() < 0.5:
            kind, given = "at a call", {"moment": int(rng.integers(case.moments))}
        else:
            end = rng.random() < 0.5  # where most files are written
            kind, given = "at a time", {"seconds": case.seconds * rng.uniform(0.7 if end else 0.0, 1.0)}
        found = run(folder, scenario.command, **given)
        killed = found.code == -signal.SIGKILL
        check(killed or found.code == 0, f"{given}: exit {found.code}; {found.errors}")
        counts[f"killed {kind}" if killed else "ended before"] += 1
        state = check_killed(scenario, folder, before, whole)
        counts[state] += 1
        if not killed:
            break
    if scenario.repeats or state != "new":
        _succeed(folder, scenario.command)
    counts["hidden files"] += check_finished(folder, case.whole)


def fuzz(times: int, seed: int, only: list[str], keep: Path) -> int:
    """Kill commands that many times; print a summary; return the number of findings."""
    rng, findings, counts = np.random.default_rng(seed), 0, collections.defaultdict(collections.Counter)
    inputs = keep / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    cases: dict[tuple[str, bool], Case] = {}
    for number in itertools.count():
        name = only[number % len(only)]
        of = counts[name]
        if (
            sum(c[key] for c in counts.values() for key in ("killed at a time", "killed at a call"))
            >= times
        ):
            break
        has_older = bool(SCENARIOS[name].older) and number // len(only) % 2 == 1
        key = (name, has_older)
        if key not in cases:
            cases[key] = prepare(SCENARIOS[name], inputs, keep / f"{name}-{has_older}", has_older)
            print(f"{name}: {cases[key].seconds:.2f} s, {cases[key].moments} moments", flush=True)
        folder = keep / f"case-{number}"
        try:
            kill_and_repeat(cases[key], folder, rng, of)
            shutil.rmtree(folder)
        except AssertionError as error:
            findings += 1
            of["findings"] += 1
            print(
                f"{name}, {'with' if has_older else 'without'} older output: {error}; {folder}", flush=True
            )
    columns = (
        "killed at a time",
        "killed at a call",
        "ended before",
        "old",
        "between",
        "new",
        "hidden files",
    )
    columns += ("findings",)
    print(" | ".join([f"{'':18}", *columns]))
    for name in [*only, "all"]:
        row = sum(counts.values(), collections.Counter()) if name == "all" else counts[name]
        print(" | ".join([f"{name:18}", *(f"{row[key]:>{len(key)}}" for key in columns)]))
    return findings


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(int(sys.argv[2]), sys.argv[3:])
    parser = argparse.ArgumentParser(prog="fuzz.kill", description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200, help="how many kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="clusterfug-kill-"))
    findings = fuzz(given.times, given.seed, given.only, folder)
    if not findings:
        shutil.rmtree(folder)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
