"""clusterfug demo: better than greedy contraction, and its files can be evaluated."""

import numpy as np
import pytest


def test_the_demo_clusters_the_digits(run, report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    heading, figures = (line.split() for line in out.splitlines()[:2])
    row = dict(zip(heading, figures, strict=True))
    assert row["items"] == "1,797"
    assert int(row["clusters"]) in range(25, 40)
    assert float(row["objective"].replace(",", "")) < -617_000  # greedy contraction: -614,910.92
    assert float(row["AMI"]) > 0.75  # 0.721
    folder = tmp_path / "clusterfug-demo"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["clusters.png", "digits.npy", "labels.npy", "labels.npy.json"]
    assert np.load(folder / "labels.npy").max() + 1 == int(row["clusters"])
    assert (folder / "clusters.png").read_bytes().startswith(b"\x89PNG")
    evaluated = report("evaluate", folder / "labels.npy", "--features", folder / "digits.npy")
    assert f"{evaluated['objective']:,.2f}" == row["objective"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("-o x.npy", "cannot write to x.npy: it is not a folder"),
        ("-o new -t nan", "threshold must be a finite number"),
    ],
)
def test_bad_input_is_one_line(assert_fails, command, message):
    assert_fails(f"demo {command}", message)
