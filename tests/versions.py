"""Run the test suite on several versions of Python and of the dependencies: ``make versions``.

Every Python that is given or found (`python3.X` in PATH or of pyenv) gets an environment with the newest
dependencies: those of constraints-dev.txt, or, if they have no wheels for it, whatever pip selects. The
lowest Python gets one more with the lowest versions that pyproject.toml allows. torch is only installed as
the CPU build of constraints-dev.txt, and not among the lowest versions; without it its tests do not run,
and the table says so. Environments and copies of the tree are in a temporary folder. Exits 1 if a test
fails.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOWEST_MINOR = int(re.fullmatch(r">=3\.(\d+)", PROJECT["requires-python"])[1])
#: Extras that tests need; "dev" has the tools of the tests.
EXTRAS = ("ann", "dask", "embed", "io", "plot", "segmentation")
TOOLS = ("hypothesis", "onnx", "pytest", "pytest-xdist", "torchmetrics")
#: Packages that need torch.
OF_TORCH = ("torch", "torchmetrics")
SHOWN = ("numpy", "scipy", "scikit-learn", "numba", "torch")


class Outcome(NamedTuple):
    python: str
    dependencies: str
    versions: str
    counts: dict[str, int]


def name_of(requirement: str) -> str:
    """Return the name of the package, without its extras and versions."""
    return re.match(r"[\w.-]+", requirement)[0]


def requirements() -> tuple[list[str], list[str]]:
    """Return the requirements of the package with its extras, and those of the tests."""
    extras = PROJECT["optional-dependencies"]
    package = sorted({*PROJECT["dependencies"], *(line for extra in EXTRAS for line in extras[extra])})
    return package, [line for line in extras["dev"] if name_of(line) in TOOLS]


def pythons() -> Iterator[Path]:
    """Find the interpreters from the lowest version on, one of each minor version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(LOWEST_MINOR, LOWEST_MINOR + 10):
        candidates = [path / "bin" / "python" for path in sorted(pyenv.glob(f"3.{minor}.*"))[::-1]]
        in_path = shutil.which(f"python3.{minor}")
        candidates += [] if in_path is None else [Path(in_path)]
        yield from [path for path in candidates if version_of(path).startswith(f"3.{minor}.")][:1]


def version_of(python: Path) -> str:
    """Return the version of an interpreter; empty if it does not run."""
    command = [python, "-c", "import platform; print(platform.python_version())"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def copy_of_tree(folder: Path) -> None:
    """Copy the files that git tracks or does not ignore: every environment compiles its own kernels."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


class Environment:
    """A virtual environment, beside a copy of the tree that is installed in it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.tree, self.log = (
            folder / "venv" / "bin" / "python",
            folder / "tree",
            folder / "log",
        )
        copy_of_tree(self.tree)
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)

    def install(self, *arguments: str) -> bool:
        """Install by pip; return whether that was possible."""
        command = [
            self.python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            *arguments,
        ]
        with self.log.open("a", encoding="utf-8") as log:
            return subprocess.run(command, cwd=self.tree, stdout=log, stderr=log).returncode == 0

    def install_newest(self) -> str:
        """Install the newest dependencies; return which they are."""
        lines = (ROOT / "constraints-dev.txt").read_text(encoding="utf-8").splitlines()
        given = [line for line in lines if line and not line.startswith("#")]
        [torch] = [line for line in given if name_of(line) == "torch"]
        constraints = self.tree.parent / "constraints.txt"
        constraints.write_text("\n".join(line for line in given if line != torch), encoding="utf-8")
        package, tools = requirements()
        has_torch = self.install(f"{torch}+cpu", "--only-binary", ":all:", "--constraint", str(constraints))
        if not has_torch:
            tools = [line for line in tools if name_of(line) not in OF_TORCH]
        wanted = (*package, *tools, "--only-binary", ":all:")
        is_constrained = self.install(*wanted, "--constraint", str(constraints))
        if not is_constrained and not self.install(*wanted):
            raise SystemExit(f"the dependencies cannot be installed: see {self.log}")
        return "constraints-dev.txt" if is_constrained else "newest"

    def install_lowest(self) -> str:
        """Install the lowest version of every dependency, and any version of the tools of the tests."""
        package, tools = requirements()
        tools = [line for line in tools if name_of(line) not in OF_TORCH]
        lowest = sorted({line.replace(">=", "==") for line in package})
        if not self.install(*lowest, *tools, "--only-binary", ":all:"):
            raise SystemExit(f"the lowest dependencies cannot be installed: see {self.log}")
        return "lowest"

    def test(self, jobs: int, arguments: list[str]) -> tuple[str, dict[str, int]]:
        """Run the tests; return the versions of the largest dependencies, and counts of outcomes."""
        if not self.install("--no-deps", "--editable", "."):
            raise SystemExit(f"the package cannot be installed: see {self.log}")
        command = [self.python, "-m", "pip", "list", "--format", "freeze"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        installed = dict(line.split("==", 1) for line in listed if "==" in line)
        command = [self.python, "-m", "pytest", "-q", "-n", str(jobs), "--dist=loadfile"]
        if "torch" not in installed:
            command.append("--ignore=tests/execution/torch")
        results = self.tree.parent / "results.xml"
        results.unlink(missing_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            command += [f"--junitxml={results}", *arguments]
            subprocess.run(command, cwd=self.tree, stdout=log, stderr=log)
        if not results.exists():
            raise SystemExit(f"the tests did not run: see {self.log}")
        versions = ", ".join(f"{name} {installed.get(name, 'not installed')}" for name in SHOWN)
        return versions, counts_of(results)


def counts_of(results: Path) -> dict[str, int]:
    """Return how many tests passed, failed and were skipped; print those that failed."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ElementTree.parse(results).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            counts["failed"] += 1
            print(f"  failed: {case.get('classname')}::{case.get('name')}", flush=True)
        else:
            counts["passed" if case.find("skipped") is None else "skipped"] += 1
    return counts


def show(outcomes: list[Outcome]) -> None:
    """Print the table."""
    rows = [("python", "dependencies", "versions", "passed", "failed", "skipped")]
    rows += [(*o[:3], *(str(o.counts[key]) for key in ("passed", "failed", "skipped"))) for o in outcomes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    print("Where torch is not installed, its tests did not run. Its lowest version is never tested.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "pythons", nargs="*", type=Path, help="interpreters (default: those that are found)"
    )
    parser.add_argument("--only", choices=("newest", "lowest"), help="one kind of dependencies")
    parser.add_argument("--jobs", type=int, default=2, help="processes of the tests")
    parser.add_argument("--keep", type=Path, help="a new folder for the environments, which are kept")
    parser.add_argument(
        "--pytest", nargs=argparse.REMAINDER, default=[], help="further arguments of pytest"
    )
    given = parser.parse_args()
    found = given.pythons or list(pythons())
    runs = [] if given.only == "lowest" else [(python, "newest") for python in found]
    minors = {python: int(version_of(python).split(".")[1]) for python in found}
    runs += [(p, "lowest") for p in found if minors[p] == LOWEST_MINOR and given.only != "newest"]
    folder = given.keep or Path(tempfile.mkdtemp(prefix="clusterfug-versions-"))
    folder.mkdir(exist_ok=True)
    outcomes = []
    for python, kind in runs:
        place = folder / f"{version_of(python)}-{kind}"
        place.mkdir()
        print(f"Python {version_of(python)}, {kind} dependencies: {place / 'log'}", flush=True)
        environment = Environment(python, place)
        which = environment.install_newest() if kind == "newest" else environment.install_lowest()
        outcomes.append(Outcome(version_of(python), which, *environment.test(given.jobs, given.pytest)))
    show(outcomes)
    failed = any(outcome.counts["failed"] for outcome in outcomes)
    if not failed and given.keep is None:
        shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
