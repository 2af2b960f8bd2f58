"""What is printed: a progress bar on a terminal only, and JSON without infinity."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from makers import without_announcement

from clusterfug.cli.terminal import console, facts, print_json


def test_a_terminal_shows_a_progress_bar(features):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "clusterfug", "cluster", str(features[0])],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        drawn += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"neighbours" in drawn
    assert b"\xe2\x94\x81" in drawn  # the bar


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_printed_is_one_line(features):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "clusterfug", "cluster", str(features[0])]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    errors = without_announcement(done.stderr)
    assert errors == "clusterfug: error: cannot write the output: No space left on device\n"


def test_a_command_may_be_started_with_its_streams_closed(features, tmp_path):
    command = [sys.executable, "-m", "clusterfug", "cluster", str(features[0]), "-o", tmp_path / "l.npy"]
    done = subprocess.run(command, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1), check=False)
    assert (done.returncode, without_announcement(done.stderr.decode())) == (0, "")
    assert (tmp_path / "l.npy").exists()
    wrong = [*command[:-1], tmp_path / "l.doc"]
    done = subprocess.run(wrong, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2), check=False)
    assert (done.returncode, done.stdout) == (2, b"")


def test_names_of_files_are_printed_as_they_are(run, features, tmp_path):
    (tmp_path / "[").mkdir()
    picture = tmp_path / "[" / "x].png"  # together this looks like markup
    code, out, errors = run("cluster", features[0], "--thresholds", ".2:.8:3", "--plot", picture)
    assert (code, errors) == (0, "")
    assert str(picture) in out.replace("\n", "")


def test_a_name_that_is_no_text_is_printed_somehow(features, tmp_path):
    labels = os.fsencode(tmp_path) + b"/l\xff.npy"
    command = [sys.executable, "-m", "clusterfug", "cluster", str(features[0]), "-o", labels]
    strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, env=strict, capture_output=True, check=False)
    assert done.returncode == 0
    assert b"l\\udcff.npy" in done.stdout
    assert os.path.exists(labels)


def test_ctrl_c_after_the_end_of_a_command_does_nothing(features):
    """A module that ends last sends the signal while the interpreter shuts down."""
    late = (
        "import atexit, os, signal; from clusterfug.__main__ import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT)); main()"
    )
    command = [sys.executable, "-c", late, "inspect", str(features[0])]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        check=False,
    )
    assert (done.returncode, without_announcement(done.stderr)) == (0, "")


def test_values_are_printed_as_they_are_and_none_is_left_out(capsys):
    console().print(facts({"path": "[bold]x[/bold].npy", "bound": None}))
    assert capsys.readouterr().out.split() == ["path", "[bold]x[/bold].npy"]


def test_json_has_paths_as_texts_and_no_other_objects(capsys):
    print_json({"output": Path("l.npy"), "plot": None})
    assert capsys.readouterr().out == '{"output": "l.npy", "plot": null}\n'
    with pytest.raises(TypeError):
        print_json({"output": object()})


def test_what_is_not_finite_is_none(capsys):
    print_json({"a": 1.5, "b": None, "c": float("inf"), "d": float("nan"), "e": 2})
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "b": None, "c": None, "d": None, "e": 2}
