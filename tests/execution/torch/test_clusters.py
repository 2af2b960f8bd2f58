"""TensorClusters: sums of clusters while items move."""

import torch

from clusterfug.execution.torch.clusters import TensorClusters


def test_sums_of_an_emptied_cluster_are_exactly_zero(rng, packed):
    problem = packed([rng.normal(size=(30, 5)) + 1e3], 0.1)
    clusters = TensorClusters(problem, problem.items % 3)
    emptied, other = clusters.labels[:2].tolist()
    clusters.move(clusters.labels == emptied, torch.full_like(clusters.labels, other))
    assert not clusters.sums[emptied].any()
    assert not clusters.extra[emptied].any()


def test_moves_that_do_not_improve_are_undone(backend, packed, several):
    problem = packed(several, 0.3)
    clusters = TensorClusters(problem, problem.items % 5)
    before = [clusters.labels.clone(), clusters.sums.clone(), clusters.extra.clone()]
    chosen = torch.ones(problem.n, dtype=torch.bool, device=backend)
    clusters.move(chosen, torch.full_like(clusters.labels, -1))
    kept = torch.zeros(problem.problems, dtype=torch.bool, device=backend)
    clusters.keep(kept)
    for old, new in zip(before, (clusters.labels, clusters.sums, clusters.extra), strict=True):
        assert torch.equal(old, new)
