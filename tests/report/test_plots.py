"""Plots of threshold paths: written with matplotlib, an error without it."""

import sys

import pytest

from clusterfug import threshold_path
from clusterfug.report.plots import plot_path


def test_a_plot_without_matplotlib_names_the_extra(rng, tmp_path, monkeypatch):
    path = threshold_path(rng.normal(size=(60, 4)), [0.2])
    plot_path(path, tmp_path / "one.png")  # one threshold has no neighbours
    assert (tmp_path / "one.png").stat().st_size > 1000
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[plot\]'"):
        plot_path(path, tmp_path / "two.png")
