"""The package: public names, and an import that loads nothing heavy."""

import subprocess
import sys

import pytest

import clusterfug


def test_import_is_light():
    heavy = ("torch", "faiss", "dask", "matplotlib", "numba", "sklearn", "scipy", "rich", "typer")
    code = f"import sys, clusterfug; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "[]\n"


def test_public_names():
    for name in clusterfug.__all__:
        assert getattr(clusterfug, name).__name__ == name
    assert set(clusterfug.__all__) <= set(dir(clusterfug))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        clusterfug.nope  # noqa: B018
