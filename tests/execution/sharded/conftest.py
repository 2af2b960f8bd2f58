"""Shards of few items: every test of this folder works with small problems."""

import pytest

from clusterfug.execution.sharded import source


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 8)
