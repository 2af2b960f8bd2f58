"""TensorProblem: costs, contraction and inside are those of the dense problems in the pack."""

import numpy as np
import pytest
import torch
from makers import split_by_problem, uneven_mixture

from clusterfug import DenseProblem
from clusterfug.execution.torch.inputs import TensorInput
from clusterfug.execution.torch.pack import make_pack


def pair_problems(X, i, j, costs):
    """Every pair as a problem of two items."""
    for pair in zip(i, j, strict=True):
        own = {
            name: value[list(pair)] if np.shape(value) == (len(X),) else value
            for name, value in costs.items()
        }
        yield DenseProblem(X[list(pair)], **own)


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.3},
        {"alpha": 0.5, "prefer": "large"},
        {"alpha": np.linspace(0.1, 0.9, 40), "sample_weight": np.linspace(0.5, 2, 40)},
        {"threshold": 0.2, "signature": np.repeat([1, -1], [15, 5])},
        {"threshold": 1e40, "scale": 1e20},
    ],
)
def test_costs_and_inside_are_those_of_the_dense_problem(backend, rng, costs):
    costs = dict(costs)
    scale = costs.pop("scale", 1.0)
    X = scale * uneven_mixture(rng, 40, 20, 5)
    problem = DenseProblem(X, **costs)
    pack, errors = make_pack(
        {0: TensorInput(problem, backend)}, backend, torch.float32, limit=np.inf, streamed=False
    )
    assert not errors
    tensors, [unit] = pack.problem, pack.units
    for clusters in (1, 7, 40):
        labels = rng.integers(clusters, size=40)
        contracted, _ = tensors.contract(torch.tensor(labels, device=backend))
        found = float(tensors.inside(contracted))
        assert unit * found == pytest.approx(problem.inside(labels), rel=1e-10, abs=1e-10 * scale**2)
    i, j = np.triu_indices(40, 1)
    found = tensors.costs(torch.tensor(i, device=backend), tensors, torch.tensor(j, device=backend))
    expected = [problem.objective([0, 1]) for problem in pair_problems(X, i, j, costs)]
    np.testing.assert_allclose(unit * found.cpu().numpy(), expected, rtol=1e-10, atol=1e-10 * scale**2)


@pytest.mark.parametrize("part_size", [None, 7])
def test_contraction_adds_rows_and_orders_clusters(backend, rng, packed, streamed, part_size):
    problem = packed([uneven_mixture(rng, 50, 20, 4)])
    if part_size is not None:
        problem = streamed(problem, part_size)
    keys = torch.tensor(rng.integers(9, size=50) * 1000, device=backend)
    contracted, labels = problem.contract(keys)
    used, expected = torch.unique(keys, return_inverse=True)
    assert torch.equal(labels, expected)
    assert contracted.n == len(used)
    for c in range(contracted.n):
        of_cluster = labels == c
        torch.testing.assert_close(
            contracted.features[c],
            problem.features[of_cluster.to(problem.features.device)].sum(0).to(backend),
        )
        assert float(contracted.a[c]) == pytest.approx(float(problem.a[of_cluster].sum()))
    again, _ = contracted.contract(contracted.items % 2)
    torch.testing.assert_close(contracted.inside(again) + problem.inside(contracted), problem.inside(again))


def test_problems_of_a_pack_are_independent(backend, rng, packed, several):
    """Equal keys in different problems are different clusters; inside is that of each problem alone."""
    problem = packed(several, 0.3)
    keys = torch.tensor(rng.integers(4, size=problem.n), device=backend)
    contracted, labels = problem.contract(keys)
    assert torch.equal(contracted.problem_of[labels], problem.problem_of)
    own_keys = split_by_problem(problem, keys)
    expected = [DenseProblem(X, 0.3).inside(own) for X, own in zip(several, own_keys, strict=True)]
    np.testing.assert_allclose(problem.inside(contracted).cpu(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("part_size", [None, 7])
@pytest.mark.parametrize(("scale", "threshold"), [(1.0, 0.3), (1e8, 0.3), (1.0, 0.0)])
def test_costs_of_labels_do_not_contain_the_rounding_of_squares(
    rng, packed, streamed, backend, scale, threshold, part_size
):
    X = rng.normal(size=(30, 4))
    X[:, 3] = 0
    X[4] = 0, 0, 0, scale  # the product with any other row is 0
    problem = packed([X], threshold)
    assert problem.has_small_squares == (scale == 1.0 and threshold > 0)
    if part_size is not None:
        problem = streamed(problem, part_size)
    keys = torch.tensor(rng.integers(4, size=30), device=backend)
    clusters, labels = problem.contract(keys)
    dense = DenseProblem(X, threshold)
    unit = (scale / float(problem.features[4, 3])) ** 2  # tensors are scaled by a power of two
    expected = dense.inside(labels.cpu().numpy()), dense.objective(labels.cpu().numpy())
    found = [unit * float(cost) for cost in problem.cost_of(labels, clusters)]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert unit * float(problem.exact_inside(labels)) == pytest.approx(expected[0], rel=1e-12, abs=1e-12)


def test_items_that_are_alone_have_nothing_inside(rng, packed, backend):
    """A difference of squares in another order would leave their rounding."""
    X = rng.normal(size=(300, 4)) * 10.0 ** rng.uniform(-4, 4, size=(300, 1))
    problem = packed([X], 0.3)
    alone = torch.tensor(rng.permutation(300), device=backend)
    assert float(problem.exact_inside(alone)) == 0
