"""Values with large arrays on disk."""

import gc
import os
import resource
import tempfile
from contextlib import suppress

import numpy as np
import pytest

from clusterfug import DenseProblem
from clusterfug.execution.sharded.spill import spilled


def open_files():
    return len(os.listdir("/proc/self/fd"))


def unnamed_files():
    """Number of open files without a name; threads of other tests may open and close sockets meanwhile."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{number}").endswith("(deleted)")
    return count


def mappings():
    """Number of mapped files without a name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum("(deleted)" in line for line in maps)


def test_values_on_disk_are_the_same(rng):
    problem = DenseProblem(rng.normal(size=(70_000, 2)), 0.3)
    labels = rng.integers(0, 9, size=70_000)
    value = (labels, problem, {"more": labels[:3]}, None)
    found = spilled(value)
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_array_equal(found[1].rows.features, problem.rows.features)
    assert found[1].inside(found[0]) == problem.inside(labels)
    assert found[2]["more"].tolist() == labels[:3].tolist()
    assert found[3] is None
    found[0][:] = 7  # writes to a copy of the pages
    assert labels.max() == 8
    for array in (found[0], found[1].rows.features):
        assert array.ctypes.data % 64 == 0
        assert not array.flags.owndata


def test_small_values_stay_in_memory():
    value = (np.arange(10), "text")
    assert spilled(value) is value


def test_a_file_exists_as_long_as_its_large_arrays():
    """Labels are kept for long, the nodes beside them are not."""
    labels, nodes = spilled((np.arange(10), np.zeros(200_000)))
    assert labels.tolist() == list(range(10))
    before = mappings()
    del nodes
    gc.collect()
    assert mappings() == before - 1


def test_values_stay_in_memory_when_half_of_the_open_files_are_used():
    limits, room = resource.getrlimit(resource.RLIMIT_NOFILE), open_files() + 50
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * room, limits[1]))
    try:
        values = [spilled(np.full(200_000, at)) for at in range(2 * room)]
        assert open_files() < 2 * room
        assert [value.flags.owndata for value in values] == [False] * room + [True] * room
        assert [value[0] for value in values] == list(range(2 * room))
        del values[0]
        gc.collect()
        assert not spilled(np.zeros(200_000)).flags.owndata
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_files_are_closed_with_their_values(rng):
    before = unnamed_files(), mappings()
    values = [spilled(rng.normal(size=200_000)) for _ in range(5)]
    assert (unnamed_files(), mappings()) == (before[0] + 5, before[1] + 5)
    del values
    gc.collect()
    assert (unnamed_files(), mappings()) == before


def test_a_full_folder_for_temporary_files_is_a_one_line_error(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    message = r"folder for temporary files, .*: No space left on device; set TMPDIR"
    with pytest.raises(OSError, match=message):
        spilled(np.zeros(200_000))
