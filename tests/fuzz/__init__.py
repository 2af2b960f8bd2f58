"""Random hostile inputs, and oracles that do not share code with the package. `python -m fuzz --help`.

A target is a function of a random generator and an empty folder that makes one input, runs the package
on it, and raises an error if the outcome is wrong. A case is named by target, seed and number; the same
name is always the same input.
"""

import logging
import os
import zlib
from collections.abc import Callable
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

Target = Callable[[np.random.Generator, Path], None]

#: Where the targets are, and in how many of 30 cases each is run.
MODULES = {
    "fuzz.features": {"features": 7, "tensors": 1, "selection": 1, "estimator": 1, "shards": 1},
    "fuzz.batches": {"batches": 1, "paths": 1, "matrices": 1},
    "fuzz.graphs": {"graphs": 3},
    "fuzz.mixed": {"mixed": 3, "objectives": 1},
    "fuzz.wrong": {"wrong_arguments": 2},
    "fuzz.files": {"damaged_files": 3, "damaged_checkpoints": 1},
    "fuzz.pictures": {"damaged_pictures": 1},
    "fuzz.commands": {"commands": 2},
}
SHARES = {name: share for targets in MODULES.values() for name, share in targets.items()}
#: The order in which targets are run.
SCHEDULE = [name for name, share in SHARES.items() for _ in range(share)]


def target(name: str) -> Target:
    """Return the function of a target."""
    [module] = (module for module, names in MODULES.items() if name in names)
    return getattr(import_module(module), name)


def run_case(name: str, seed: int, number: int) -> None:
    """Run one case; raise what is wrong with its outcome."""
    logging.getLogger("clusterfug").setLevel(logging.ERROR)  # that kernels are compiled is no finding
    rng = np.random.default_rng([seed, number, zlib.crc32(name.encode())])
    with TemporaryDirectory(prefix="clusterfug-fuzz-") as folder, chdir(folder):
        target(name)(rng, Path(os.getcwd()))
