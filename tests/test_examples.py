"""The tutorials run as they are, or say what to install; what they print and write is right."""

import csv
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a script as `python examples/SCRIPT ARGUMENTS`; returns what it prints, or its error message."""

    def run(script, *arguments, fails=False):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        if not fails:
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
            return capsys.readouterr().out
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        return stop.value.code

    return run


@pytest.fixture
def without_extras(monkeypatch):
    """Make the packages of all extras impossible to import, as after `make demo`."""
    extras = ("PIL", "faiss", "h5py", "matplotlib", "onnxruntime", "pyarrow")

    class Absent:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name.partition(".")[0] in extras:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    for name in [name for name in sys.modules if name.partition(".")[0] in extras]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])


def test_sentences_without_arguments(run, tmp_path, without_extras):
    out = run("sentences.py", "-o", tmp_path / "clusters.csv")
    with (tmp_path / "clusters.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sentence"] for row in rows] == (EXAMPLES / "sentences.txt").read_text().splitlines()
    labels = np.array([int(row["label"]) for row in rows])
    largest = np.bincount(labels).argsort()[::-1][0]
    name = next(row["name"] for row in rows if int(row["label"]) == largest)
    assert f"{np.bincount(labels).max():6,}  {name}\n" in out
    assert f"{labels.max() + 1} clusters of 80 sentences" in out
    for word in name.split(", "):
        inside = [word in row["sentence"].lower() for row in rows if int(row["label"]) == largest]
        outside = [word in row["sentence"].lower() for row in rows if int(row["label"]) != largest]
        assert np.mean(inside) > np.mean(outside)
    intents = np.arange(80) // 10  # the file has ten sentences of each
    same = labels[:, None] == labels[None, :]
    assert (same & (intents[:, None] == intents[None, :])).sum() > 0.8 * same.sum()


def test_sentences_with_features_and_labels(run, tmp_path, rng):
    animals, fruit = (
        ("the cat sleeps", "a cat runs", "cat and dog"),
        ("ripe plums", "plums or figs", "sweet plums"),
    )
    (tmp_path / "t.txt").write_text("\n".join((*animals, *fruit)) + "\n")
    np.save(tmp_path / "x.npy", np.repeat(np.eye(2), 3, axis=0) + 0.01 * rng.normal(size=(6, 2)))
    np.save(tmp_path / "y.npy", np.repeat([0, 1], 3))
    files = ("--features", tmp_path / "x.npy", "--labels", tmp_path / "y.npy")
    out = run("sentences.py", tmp_path / "t.txt", *files, "--threshold", 0.5)
    assert "threshold 0.5: 2 clusters of 6 sentences\nAMI 1.000" in out
    assert "     3  cat\n" in out
    assert "     3  plums\n" in out
    np.save(tmp_path / "x.npy", np.eye(5))
    err = run("sentences.py", tmp_path / "t.txt", *files, fails=True)
    assert err == f"sentences.py: {tmp_path / 't.txt'} has 6 lines, {tmp_path / 'x.npy'} 5 rows"
    assert "No such file" in run("sentences.py", "none.txt", fails=True)


def test_images_without_arguments(run, tmp_path, without_extras):
    out = run("images.py", "--threshold", 0.4, "-o", tmp_path / "sheet.png")
    assert "1,797 images, 64 features, mean cosine 0.69" in out
    clusters = int(out.split("threshold 0.4: ")[1].split()[0])
    assert clusters in range(50, 65)
    assert float(out.split("AMI ")[1].split(",")[0]) > 0.75
    assert f"the {clusters} largest clusters" in out
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_images_of_a_folder_choose_their_threshold(run, tmp_path, rng):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "folder").mkdir()
    classes = np.repeat([0, 1, 2], 20)
    for item, grey in enumerate(classes):
        image.new("RGB", (5, 4), (100 + int(grey),) * 3).save(tmp_path / "folder" / f"{item:02}.png")
    np.save(tmp_path / "x.npy", np.eye(3)[classes] + 0.1 * rng.normal(size=(60, 3)))
    np.save(tmp_path / "y.npy", classes)
    given = ("--features", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "-o", tmp_path / "sheet.png")
    out = run("images.py", *given, "--images", tmp_path / "folder")
    assert "threshold  clusters  largest  alone  agreement" in out
    assert "3 clusters, 0 images alone\nAMI 1.000, homogeneity 1.000" in out
    sheet = np.asarray(image.open(tmp_path / "sheet.png"))
    assert {100, 101, 102} <= set(sheet.ravel().tolist())
    (tmp_path / "list.txt").write_text("folder/00.png\nfolder/59.png\n")
    err = run("images.py", *given, "--images", tmp_path / "list.txt", fails=True)
    assert err == f"images.py: {tmp_path / 'list.txt'} has 2 images, {tmp_path / 'x.npy'} 60 rows"
    assert "go with --features" in run("images.py", *given[2:], fails=True)


def test_segmentation_draws_cells_and_its_options_help(run, tmp_path):
    out = run("segmentation.py", "-o", tmp_path / "objects.png")
    scores = {line[:30].strip(): float(line[38:46]) for line in out.splitlines()[1:8]}
    assert scores["0.5, position counts"] > scores["0.5, small ones dropped"] > scores["threshold 0.7"]
    assert max(scores.values()) > 80
    assert (tmp_path / "objects.png").read_bytes().startswith(b"\x89PNG")


def test_a_missing_extra_is_named_before_any_work(run, tmp_path, capsys, without_extras):
    err = run("segmentation.py", "-o", tmp_path / "objects.png", fails=True)
    assert err == "segmentation.py: pictures need pillow: pip install 'clusterfug[segmentation]'"
    np.save(tmp_path / "x.npy", np.eye(5))
    err = run("images.py", "--features", tmp_path / "x.npy", "--images", tmp_path, fails=True)
    assert err == "images.py: reading images needs pillow: pip install 'clusterfug[embed]'"
    assert capsys.readouterr().out == ""


def test_segmentation_of_a_file(run, tmp_path, rng):
    truth = np.kron([[1, 2], [3, 3]], np.ones((8, 8), dtype=int))
    np.savez(tmp_path / "x.npz", embeddings=np.eye(4)[truth[::2, ::2]], truth_instance=truth)
    out = run("segmentation.py", tmp_path / "x.npz", "-o", tmp_path / "x.png")
    assert "threshold 0.5                        3   100.0   100.0   100.0" in out
    np.savez(tmp_path / "empty.npz", nothing=np.zeros(1))
    assert "must hold an array 'embeddings'" in run("segmentation.py", tmp_path / "empty.npz", fails=True)
