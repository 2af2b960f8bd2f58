"""Compilation: where kernels are cached, and that it is announced and not counted as time of a run."""

import logging
import os
import subprocess
import sys

import pytest
from numba.core import event

from clusterfug.execution import jit

MODULE = """
import sys
from clusterfug.execution.jit import kernel

@kernel
def twice(x):
    return 2 * x

if __name__ == "__main__":
    import kernels_of_a_test
    twice = kernels_of_a_test.twice
    print(twice(21), sum(twice.stats.cache_hits.values()))
"""


@pytest.fixture
def run_read_only(tmp_path):
    """Run a kernel where neither the folder of its module nor a cache folder of the user is writable."""
    code, home, temporary = (tmp_path / name for name in ("code", "home", "temporary"))
    code.mkdir()
    temporary.mkdir()
    (code / "kernels_of_a_test.py").write_text(MODULE)
    (code / "__pycache__").write_text("a file: no folder can be made here")
    home.write_text("a file")
    names = ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(temporary)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}

    def run():
        command = [sys.executable, code / "kernels_of_a_test.py"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout, done.stderr

    return run, temporary / f"clusterfug-{os.getuid()}"


def test_kernels_of_a_read_only_installation_are_kept_in_a_private_folder(run_read_only):
    run, folder = run_read_only
    assert run() == ("42 0\n", "")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run() == ("42 1\n", "")


def test_kernels_are_not_read_from_a_folder_to_which_others_may_write(run_read_only):
    run, folder = run_read_only
    folder.mkdir(mode=0o700)
    folder.chmod(0o777)
    expected = "clusterfug: no folder for compiled kernels is writable: set NUMBA_CACHE_DIR to one\n"
    for _ in range(2):
        assert run() == ("42 0\n", expected)
    assert not list(folder.iterdir())


@pytest.fixture
def compilations(monkeypatch):
    """A listener of its own, and a function that lets its clock go on."""
    jit._compilations.cache_clear()
    now = 100.0

    def wait(seconds):
        nonlocal now
        now += seconds

    monkeypatch.setattr(jit.time, "perf_counter", lambda: now)
    listener = jit._compilations()
    yield wait
    event.unregister("numba:compile", listener)
    jit._compilations.cache_clear()


def test_the_clock_stands_still_while_kernels_are_compiled(compilations):
    begin = jit.clock()
    compilations(1.0)
    with event.trigger_event("numba:compile"):
        compilations(2.0)
        with event.trigger_event("numba:compile"):  # a kernel that the other one calls
            compilations(4.0)
            assert jit.clock() - begin == 1.0
        compilations(8.0)
    assert jit.clock() - begin == 1.0
    compilations(16.0)
    assert jit.clock() - begin == 17.0


def test_a_long_compilation_is_announced_once(compilations, caplog):
    with caplog.at_level(logging.WARNING, "clusterfug"):
        for _ in range(3):
            with event.trigger_event("numba:compile"):
                compilations(0.4)
        assert not caplog.messages
        for _ in range(3):
            with event.trigger_event("numba:compile"):
                compilations(2.0)
    assert caplog.messages == ["clusterfug: compiling kernels, once; this takes about half a minute"]


def test_an_error_in_a_compilation_ends_it(compilations):
    with pytest.raises(KeyboardInterrupt), event.trigger_event("numba:compile"):
        raise KeyboardInterrupt
    begin = jit.clock()
    compilations(1.0)
    assert jit.clock() - begin == 1.0
