"""Damaged images, encoders, samples and unfinished runs of `embed` and `segment`."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from makers import interrupt_at, save_encoder, save_images

from fuzz.commands import run
from fuzz.files import damage
from fuzz.oracles import check, no_runtime_warnings

EMBED = {"size": 8, "batch": 4}


@cache
def originals():
    """A folder with images, an encoder, labels, samples, pictures and a truth, and an unfinished run."""
    from clusterfug.embedding import embed
    from clusterfug.segmentation import Panoptic
    from clusterfug.segmentation.coco import CocoWriter
    from clusterfug.segmentation.pictures import write_picture

    folder, rng = Path(mkdtemp(prefix="clusterfug-pictures-")), np.random.default_rng(0)
    save_encoder(folder / "encoder.onnx")
    save_images(folder / "images", rng)
    names = sorted(path.name for path in (folder / "images").iterdir())
    (folder / "labels.txt").write_text("".join(f"{name} class{at % 3}\n" for at, name in enumerate(names)))
    for place in ("samples", "shown", "truth"):
        (folder / place).mkdir()
    writer = CocoWriter(folder / "truth", [26], {26: "car"})
    for name in ("a", "b"):
        truth = np.zeros((8, 12), dtype=np.int64)
        truth[1:4, 1:5], truth[4:7, 6:11] = 1, 2
        np.savez(
            folder / "samples" / f"{name}.npz",
            embeddings=(np.eye(3)[truth] + 0.1 * rng.normal(size=(8, 12, 3))).astype(np.float32),
            semantic=np.where(truth > 0, 26, 7),
            confidence=rng.uniform(0.4, 1.0, size=(8, 12)),
        )
        truth = np.kron(truth, np.ones((2, 2), dtype=np.int64))  # at the size of the picture
        writer.write(name, Panoptic(np.where(truth > 0, 26, 7), truth))
        picture = rng.integers(256, size=(16, 24, 3), dtype=np.uint8)
        write_picture(folder / "shown" / f"{name}.png", picture)
    writer.close()
    embed(folder / "images", folder / "encoder.onnx", folder / "whole.npy", **EMBED)
    try:
        embed(
            folder / "images",
            folder / "encoder.onnx",
            folder / "x.npy",
            callback=interrupt_at(8),
            **EMBED,
        )
    except KeyboardInterrupt:
        return folder
    raise AssertionError("the run was not interrupted")


def damaged_pictures(rng, folder):
    """Damage one file that `embed` or `segment` reads: a result, or one line for every error."""
    valid = originals()
    shutil.copytree(valid, folder, dirs_exist_ok=True)
    paths = sorted(path for path in Path().rglob("*") if path.is_file() and path.name != "whole.npy")
    path = paths[rng.integers(len(paths))]
    if path.parts[0] in ("images", "encoder.onnx", "labels.txt"):
        shutil.rmtree("x.npy.partial")  # its images are known by their time of change
        command = ["embed", "images", "encoder.onnx", "-o", "x.npy", "--size", "8", "--batch", "4"]
        command += ["--labels", "labels.txt"] if path.name == "labels.txt" or rng.random() < 0.3 else []
        may_write = ["x.npy", "x.files.txt", "x.skipped.txt", "x.labels.npy", "x.classes.txt"]
    elif path.parts[0] == "x.npy.partial":
        command = ["embed", "images", "encoder.onnx", "-o", "x.npy", "--size", "8", "--batch", "4"]
        may_write = ["x.npy", "x.files.txt"]
    else:
        command = [
            "segment",
            "samples",
            "--images",
            "shown",
            "--truth",
            "truth/panoptic.json",
            "--things",
            "26",
        ]
        form = str(rng.choice(["npy", "coco", "cityscapes"]))
        command += ["-a", "fast", "-j", "1", "-o", "out", "--format", form]
        command += ["--overlays"] if rng.random() < 0.5 else []
        may_write = ["out", "out/.segment-files.json", "out/overlays", "out/panoptic", "out/panoptic.json"]
        may_write += [f"out/{name}{end}" for name in "ab" for end in (".npy", "_instanceIds.png")]
        may_write += [f"out/{place}/{name}.png" for name in "ab" for place in ("overlays", "panoptic")]
    path.write_bytes(damage(rng, path.read_bytes()))
    with no_runtime_warnings():
        code, _ = run(command, may_write)
    if path.parts[0] == "x.npy.partial" and code == 0:
        same = Path("x.npy").read_bytes() == (valid / "whole.npy").read_bytes()
        check(same, "a damaged unfinished run changes the features")
