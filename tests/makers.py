"""Mixtures to cluster shard by shard, and how much memory makes how large a shard."""

import numpy as np

from clusterfug.execution.sharded.source import solve_bytes


def limit(items, d):
    """Memory for so many items at a time."""
    return items * solve_bytes(1, d)


def mixture(rng, n, clusters, d=8, noise=0.6):
    """Items of length 1 around random directions, in random order; and which of them."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = rng.integers(clusters, size=n)
    z = rng.normal(size=(n, d))
    X = centres[truth] + noise * z / np.linalg.norm(z, axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True), truth


def separated(rng, n, clusters, d=8):
    """The same where every pair of a cluster attracts and all others repel, at a threshold of 0.4."""
    truth = rng.integers(clusters, size=n)
    X = np.eye(d)[truth] + 0.03 * rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), truth


def clusters_of(labels):
    """The clusters as sets of items, whatever their numbers."""
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}
