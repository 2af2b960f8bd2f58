"""Reading and writing of pictures by pillow (extra `[segmentation]`)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.io.broken import broken_is_named
from clusterfug.io.files import check_readable, complete
from clusterfug.io.images import FORMATS


def require_pillow() -> Any:
    """Return the module PIL.Image, or raise an error that names the extra."""
    try:
        import PIL.Image
    except ImportError:
        raise ImportError("pictures need pillow: pip install 'clusterfug[segmentation]'") from None
    return PIL.Image


def read_picture(path: Path) -> NDArray[np.uint8]:
    """Return any picture as RGB, shape (h, w, 3)."""
    return _read(path, lambda picture: np.asarray(picture.convert("RGB")))


def read_ids(path: Path) -> NDArray[np.int64]:
    """Return the whole numbers (h, w) of a PNG with one channel of 8 or 16 bits."""
    ids: NDArray[Any] = _read(path, np.asarray)
    if ids.ndim != 2:
        raise ValueError(f"{path} must have one channel of whole numbers, not {ids.shape[2]}")
    return ids.astype(np.int64)


def _read(path: Path, convert: Any) -> Any:
    library = require_pillow()
    check_readable(path)
    with broken_is_named(path), library.open(path, formats=FORMATS) as picture:
        picture.load()
        return convert(picture)


def write_picture(path: Path, array: NDArray[Any]) -> None:
    """Write uint8 (h, w, 3) or (h, w), or uint16 (h, w), as PNG."""
    with complete(path) as part:
        require_pillow().fromarray(array).save(part, format="PNG")
