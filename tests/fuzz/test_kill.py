"""A process that is killed at any call that changes files leaves complete outputs, and can be repeated.

What SIGKILL leaves is what is in the files at that moment, so a copy of the folder stands for a kill.
"""

import shutil

import pytest

from fuzz.kill import INPUTS, SCENARIOS, around_calls, check_finished, check_killed, make_inputs, outputs


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture
def succeed(run, monkeypatch):
    """Run a command without errors in a folder."""

    def succeed(folder, command):
        monkeypatch.chdir(folder)
        code, _, err = run(*command.split())
        assert (code, err) == (0, "")

    return succeed


@pytest.fixture
def stages(monkeypatch, succeed, tmp_path):
    """Run a command; returns copies of the folder from around every call that changes a file in it."""

    def stages(folder, command):
        copies, seen, is_copying = [], None, False

        def keep():
            nonlocal seen, is_copying
            if is_copying:
                return
            is_copying = True
            files = {
                path: path.is_file() and path.read_bytes()
                for path in folder.rglob("*")
                if path.relative_to(folder).parts[0] not in INPUTS
            }
            if files != seen:
                copies.append(tmp_path / f"stage-{len(copies)}")
                shutil.copytree(folder, copies[-1])
                seen = files
            is_copying = False

        monkeypatch.chdir(folder)
        with monkeypatch.context() as patch:
            around_calls(keep, patch.setattr)
            succeed(folder, command)
        return copies

    return stages


CASES = [(name, bool(scenario.older)) for name, scenario in SCENARIOS.items()]


@pytest.mark.parametrize(("name", "has_older"), [*CASES, ("npy", False), ("embed", False)])
def test_a_command_may_be_killed_at_any_change_of_a_file(
    name, has_older, inputs, stages, succeed, tmp_path
):
    scenario, whole = SCENARIOS[name], tmp_path / "whole"
    shutil.copytree(inputs, whole)
    if has_older:
        succeed(whole, scenario.older)
    before = outputs(whole)
    copies = stages(whole, scenario.command)
    written, found = outputs(whole), []
    for folder in copies:
        found.append(check_killed(scenario, folder, before, written))
        if scenario.repeats or found[-1] != "new":
            succeed(folder, scenario.command)
        check_finished(folder, whole)
    assert (found[0], found[-1]) == ("old", "new")
