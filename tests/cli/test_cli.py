"""The application: help, version, and errors that are no command's own."""

import sys

import pytest

import clusterfug

COMMANDS = ("cluster", "multicut", "inspect", "evaluate", "bound", "convert", "embed", "segment", "demo")


@pytest.mark.parametrize("arguments", [[], ["--help"], *([command, "--help"] for command in COMMANDS)])
def test_help_of_every_command(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    assert "Usage" in out
    assert "bool" not in out  # a flag has no value
    assert arguments or all(command in out for command in COMMANDS)


def test_version(run):
    assert run("--version") == (0, f"clusterfug {clusterfug.__version__}\n", "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("nope", "No such command"),
        ("cluster", "Missing argument"),
        ("cluster x.npy --nope", "No such option"),
        ("cluster x.npy --metric euclidean", "Invalid value for '--metric'"),
        ("bound x.npy --method sdp", "'sdp' is not one of"),
        ("cluster time_limit.npy", ": time_limit.npy does not exist"),
        ("cluster a/n_clusters/n_clusters-2.npy", ": a/n_clusters/n_clusters-2.npy does not exist"),
        ("cluster x.npy -a time_limit", "unknown algorithm 'time_limit'"),
        ("cluster x.npy -a memory_limit=5", "unknown algorithm 'memory_limit=5'"),
        ("cluster x.npy -a gaec --memory-limit 1B", "use --algorithm dgaec-inc, which"),
    ],
)
def test_wrong_usage_is_one_line(assert_fails, command, message):
    assert_fails(command, message)


def test_a_file_may_have_the_name_of_a_parameter(run):
    code, _, errors = run("cluster", "n_clusters absent.npy")
    assert (code, errors) == (2, "clusterfug: error: n_clusters absent.npy does not exist\n")


def test_a_missing_extra_is_named(run, features, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run("cluster", features[0], "-o", features[0].with_name("l.parquet"))
    assert (code, err) == (
        2,
        "clusterfug: error: parquet and arrow files need pyarrow: pip install 'clusterfug[io]'\n",
    )
    monkeypatch.setitem(sys.modules, "h5py", None)
    code, _, err = run("convert", features[0], features[0].with_name("x.hdf5"))
    assert (code, err) == (2, "clusterfug: error: HDF5 files need h5py: pip install 'clusterfug[io]'\n")


def test_an_interrupted_command_writes_nothing(run, features, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("clusterfug.execution.cpu.execute", interrupt)
    code, out, err = run("cluster", features[0], "-t", 0.4, "-o", features[0].with_name("l.npy"))
    assert (code, out, err) == (
        130,
        "",
        "clusterfug: interrupted; every output is complete or not written\n",
    )
    assert [path.name for path in features[0].parent.iterdir()] == ["x.npy"]


def test_an_interrupt_after_labels_are_written_does_not_say_that_they_are_not(run, features, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["clusterfug.cli.cluster"], "_print", interrupt)
    code, _, err = run("cluster", features[0], "-t", 0.4, "-o", features[0].with_name("l.npy"))
    assert (code, err) == (130, "clusterfug: interrupted; every output is complete or not written\n")
    assert features[0].with_name("l.npy").exists()
