"""The plan: one function decides where a problem is solved, and rejects what cannot run."""

import numpy as np
import pytest

from clusterfug import GraphProblem, Threshold
from clusterfug.costs.models import Auto
from clusterfug.execution.plan import Execution, plan
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import make_solver

FEATURES = FeatureProblem(np.ones((4000, 8), dtype=np.float32), Threshold(0.4))
GRAPH = GraphProblem([[0, 1]], [1.0])
FAST, BEST = make_solver("fast"), make_solver("best")


def test_features_and_graphs_are_solved_on_the_cpu_by_default():
    assert plan(FEATURES, FAST) == plan(GRAPH, FAST) == Execution("cpu")
    assert plan(GRAPH, FAST, device="auto") == Execution("cpu")


def test_a_memory_limit_means_shards_where_it_is_exceeded_and_the_solver_can():
    assert plan(FEATURES, FAST, memory_limit="1GB").kind == "cpu"
    assert plan(FEATURES, FAST, memory_limit="1MB") == Execution("sharded", memory_limit=10**6)
    assert plan(FEATURES, BEST, memory_limit="1MB").kind == "cpu"


def test_a_checkpoint_means_shards_and_a_client_means_dask(tmp_path):
    assert plan(FEATURES, FAST, checkpoint=tmp_path).kind == "sharded"
    assert plan(FEATURES, FAST, client="tcp://127.0.0.1:1").kind == "dask"


def test_a_torch_device_means_tensors():
    torch = pytest.importorskip("torch", reason="devices need torch, the extra [gpu]")
    assert plan(FEATURES, FAST, device=torch.device("cpu")).kind == "torch"


@pytest.mark.parametrize(
    ("problem", "solver", "options", "message"),
    [
        (GRAPH, FAST, {"device": "cuda"}, "a graph problem is solved on the CPU: leave out the device"),
        (GRAPH, FAST, {"checkpoint": "run"}, "checkpoint goes with features, not with a graph"),
        (GRAPH, make_solver("dlaec"), {}, "a graph problem is solved by auto, fast, best, exact, gaec"),
        (FEATURES, BEST, {"checkpoint": "run"}, "checkpoint goes with auto and fast, not best"),
        (FEATURES, BEST, {"client": "tcp://127.0.0.1:1"}, "shards are solved by auto and fast, not best"),
        (FEATURES, FAST, {"client": "tcp://127.0.0.1:1", "device": "cuda"}, "a cluster solves on CPUs"),
        (FEATURES, FAST, {"memory_limit": "1MB", "bound": True}, "shards have no bound"),
        (FEATURES.with_costs(Auto()), FAST, {"checkpoint": "run"}, "which shards do not know"),
        (FEATURES, FAST, {"precision": "double"}, "unknown precision 'double'"),
        (FEATURES, FAST, {"memory_limit": "lots"}, "memory_limit must be bytes"),
    ],
)
def test_combinations_that_cannot_run_are_errors(problem, solver, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        plan(problem, solver, **options)
