"""Ctrl-C on the command line: one line at any time, and nothing where the signal is ignored."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from makers import without_announcement

#: A module that the command line imports, which is interrupted while it is imported.
INTERRUPTED_IMPORT = "import os, signal; os.kill(os.getpid(), signal.SIGINT); 1 / 0"
#: The command line, with SIGINT when it begins to solve.
INTERRUPTED_RUN = """
import os, signal, sys
from clusterfug import core

solve = core.solve
def interrupted(*arguments, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return solve(*arguments, **options)
core.solve = interrupted

from clusterfug.__main__ import main
main()
"""
#: The same where Python ignores the KeyboardInterrupt, as it does in destructors.
LOST_INTERRUPT = INTERRUPTED_RUN.replace(
    "def interrupted",
    "class Interrupt:\n    def __del__(self): signal.raise_signal(signal.SIGINT)\ndef interrupted",
).replace("os.kill(os.getpid(), signal.SIGINT)", "Interrupt()")
#: Then something else fails because of it.
FAILED_INTERRUPT = LOST_INTERRUPT.replace("return solve(", "raise RuntimeError(")


@pytest.fixture
def run_interrupted(features, tmp_path):
    """Cluster features in a process whose SIGINT does something; return exit code, error output, labels."""

    def run(how, action, **environment):
        labels = tmp_path / "labels.npy"
        done = subprocess.run(
            [sys.executable, *how, "cluster", features[0], "-t", "0.4", "-o", labels],
            env=os.environ | environment,
            capture_output=True,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, action),
            check=False,
        )
        return (
            done.returncode,
            without_announcement(done.stderr),
            len(np.load(labels)) if labels.exists() else None,
        )

    return run


def test_an_interrupt_while_modules_are_imported_is_one_line(run_interrupted, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "typer.py").write_text(INTERRUPTED_IMPORT)
    found = run_interrupted(["-m", "clusterfug"], signal.SIG_DFL, PYTHONPATH=str(tmp_path / "modules"))
    assert found == (130, "clusterfug: interrupted; no output was written\n", None)


@pytest.mark.parametrize("interrupted", [INTERRUPTED_RUN, LOST_INTERRUPT, FAILED_INTERRUPT])
def test_an_interrupt_of_a_run_is_one_line(run_interrupted, interrupted):
    found = run_interrupted(["-c", interrupted], signal.SIG_DFL)
    assert found == (130, "clusterfug: interrupted; every output is complete or not written\n", None)


def test_a_command_that_was_started_with_the_signal_ignored_goes_on(run_interrupted, features):
    code, errors, labels = run_interrupted(["-c", INTERRUPTED_RUN], signal.SIG_IGN)
    assert (code, labels) == (0, len(features[1]))
    assert "interrupted" not in errors
