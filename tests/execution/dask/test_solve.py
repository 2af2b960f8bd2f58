"""Problems on a dask cluster: the same results as in this process, for files and dask arrays."""

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from makers import memory_for

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.sharded import source, tasks

THIRDS = (100, 100, 100)


@pytest.mark.parametrize(("kind", "algorithm"), [("npy", "auto"), ("folder", "fast"), ("list", "auto")])
def test_files_give_the_same_labels(
    client, small_shards, tmp_path, X, write_parquet, assert_same, kind, algorithm
):
    where = tmp_path / "x.npy"
    np.save(where, X)
    if kind != "npy":
        where = write_parquet(tmp_path / "parts", X, (100, 7, 93, 100))
    if kind == "list":
        where = [str(path) for path in sorted(where.iterdir(), reverse=True)]
    options = {"threshold": 0.3, "algorithm": algorithm, "memory_limit": memory_for(75, 8)}
    assert_same(dense_multicut(where, client=client, **options), dense_multicut(where, **options))


def test_more_clusters_than_a_task_may_have(client, many_clusters, assert_same):
    path, options = many_clusters
    found = dense_multicut(path, client=client, **options)
    assert found.n_clusters > 3 * 16
    assert found.trace[-1].join_optimal
    assert_same(found, dense_multicut(path, **options))


def test_a_run_that_was_stopped_here_continues_on_a_cluster(
    client, monkeypatch, tmp_path, many_clusters, assert_same
):
    """Stopped among the pools, which the cluster solves in another order."""
    path, options = many_clusters
    whole, solve_pool, calls = dense_multicut(path, **options), tasks.solve_pool, []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return solve_pool(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "solve_pool", stop)
        with pytest.raises(KeyboardInterrupt):
            dense_multicut(path, checkpoint=tmp_path / "kept", **options)
    kept = {file.name for file in (tmp_path / "kept").iterdir()}
    assert any(name.startswith("pool-") for name in kept)
    assert "state.npz" not in kept
    assert_same(dense_multicut(path, client=client, checkpoint=tmp_path / "kept", **options), whole)


def test_a_problem_that_fits_in_one_task_is_polished(client, tmp_path, X, solve_here, assert_same):
    np.save(tmp_path / "x.npy", X)
    chunks, inside = da.from_array(X, chunks=(100, 8)), {}
    for algorithm in ("fast", "auto"):
        options = {"threshold": 0.6, "algorithm": algorithm, "metric": "inner_product"}
        found = dense_multicut(tmp_path / "x.npy", client=client, **options)
        assert [phase.name for phase in found.trace] == ["refinement"]
        assert_same(found, solve_here(X, (300,), **options))
        np.testing.assert_array_equal(found.labels, dense_multicut(X, **options).labels)
        assert found.inside == pytest.approx(DenseProblem(X, 0.6).inside(found.labels))
        pooled = dense_multicut(chunks, client=client, **options)
        assert [phase.name for phase in pooled.trace] == ["shards", "refinement"]
        assert_same(pooled, solve_here(X, THIRDS, **options))
        inside[algorithm] = np.array([found.inside, pooled.inside])
    assert np.all(inside["auto"] > inside["fast"])


@pytest.mark.parametrize(
    "chunks",
    [
        ((75,) * 4, (8,)),
        ((1, 150, 49, 100), (8,)),
        ((100, 100, 100), (3, 4, 1)),
        ((100, 0, 150, 0, 50), (8,)),
    ],
    ids=["even", "uneven", "columns", "empty"],
)
def test_every_chunk_of_rows_is_a_shard(client, X, chunks, solve_here, assert_same):
    found = dense_multicut(da.from_array(X, chunks=chunks), 0.3, client=client)
    assert isinstance(found.labels, da.Array)
    assert found.labels.chunks == (chunks[0],)
    assert found.labels.dtype == np.int64
    assert_same(found, solve_here(X, chunks[0], threshold=0.3))


def test_large_chunks_are_split(client, monkeypatch, X, solve_here, assert_same):
    sizes = (80, 30, 80, 80, 30)
    in_one_task = solve_here(X, sizes, threshold=0.6)
    monkeypatch.setattr(source, "MAX_SHARD_ITEMS", 80)
    found = dense_multicut(da.from_array(X, chunks=((110, 190), (4, 4))), 0.6, client=client)
    assert_same(found, solve_here(X, sizes, threshold=0.6))
    assert found.labels.chunks == ((110, 190),)
    assert found.inside < in_one_task.inside  # without polishing


def test_the_memory_limit_gives_the_size_of_a_shard(client, small_shards, tmp_path, X, assert_same):
    np.save(tmp_path / "x.npy", X)
    options = {"threshold": 0.3, "memory_limit": memory_for(75, 8)}
    found = dense_multicut(da.from_array(X, chunks=(300, 8)), client=client, **options)
    assert_same(found, dense_multicut(tmp_path / "x.npy", **options))


def options_of_all_kinds():
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, size=300).astype(float)
    alpha = rng.uniform(0.4, 0.7, size=300)
    return {
        "cosine": {"metric": "cosine", "threshold": 0.3},
        "centre": {"center": True, "threshold": 0.2},
        "all": {"metric": "cosine", "center": True, "sample_weight": weight, "alpha": alpha},
        "weights": {"threshold": 0.3, "sample_weight": weight},
        "alpha": {"alpha": alpha},
        "large": {"alpha": 0.3, "prefer": "large", "center": True},
        "init": {"threshold": 0.3, "init": rng.integers(20, size=300)},
    }


@pytest.mark.parametrize("kind", options_of_all_kinds())
def test_options_of_all_kinds(client, small_shards, tmp_path, X, solve_here, assert_same, kind):
    options = {"metric": "inner_product", "center": False} | options_of_all_kinds()[kind]
    Z = (3 * X + 0.1) if kind in ("cosine", "all") else X
    sizes = (120, 1, 179)
    of_chunks = dense_multicut(da.from_array(Z, chunks=(sizes, (8,))), client=client, **options)
    expected = solve_here(Z, sizes, **options)
    np.testing.assert_array_equal(of_chunks.labels, expected.labels)
    assert of_chunks.objective == pytest.approx(expected.objective)
    np.save(tmp_path / "x.npy", Z)
    options["memory_limit"] = memory_for(75, 8)
    of_files = dense_multicut(tmp_path / "x.npy", client=client, **options)
    assert_same(of_files, dense_multicut(tmp_path / "x.npy", **options))
    if kind == "init":
        assert of_files.trace[0].name == "refinement"
    W = Z - np.average(Z, axis=0, weights=options.get("sample_weight")) if options["center"] else Z
    if options["metric"] == "cosine":
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
    costs = {name: options[name] for name in ("threshold", "alpha", "prefer") if name in options}
    problem = DenseProblem(W, sample_weight=options.get("sample_weight"), **costs)
    assert of_files.objective == pytest.approx(problem.objective(of_files.labels), rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_numbers_of_other_types(client, X, solve_here, assert_same, dtype):
    Z = (100 * X).astype(dtype) if dtype == np.int8 else X.astype(dtype)
    options = {"threshold": 3000.0 if dtype == np.int8 else 0.3, "metric": "inner_product"}
    found = dense_multicut(da.from_array(Z, chunks=(100, 8)), client=client, **options)
    assert_same(found, solve_here(Z, THIRDS, **options))


def test_the_client_may_be_the_current_one_or_an_address(client, cluster, X, solve_here, assert_same):
    chunks = da.from_array(X, chunks=(100, 8))
    expected = solve_here(X, THIRDS, threshold=0.3)
    with client.as_current():
        assert_same(dense_multicut(chunks, 0.3), expected)
    assert_same(dense_multicut(chunks, 0.3, client=cluster.scheduler_address), expected)
    assert_same(dense_multicut(chunks, 0.3, client=client), expected)
    assert client.status == "running"  # a given client is not closed


@pytest.mark.parametrize("items", [300, 100])
def test_progress_is_reported(client, small_shards, X, items):
    chunks, seen = da.from_array(X, chunks=(100, 8)), []
    options = {"client": client, "memory_limit": memory_for(items, 8)}
    dense_multicut(chunks, 0.3, callback=lambda *call: seen.append(call), **options)
    assert seen[:3] == [("shards", n, 300) for n in (100, 200, 300)]
    assert seen[3:6] == [("moves", n, 300) for n in (100, 200, 300) if items < 300]
    assert {name for name, *_ in seen[6:]} <= {"moves"}


def test_a_time_limit_of_zero_returns_the_labels_of_shards(client, X):
    options = {"client": client, "metric": "inner_product", "time_limit": 0}
    found = dense_multicut(da.from_array(X, chunks=(100, 8)), 0.3, **options)
    assert [phase.name for phase in found.trace] == ["shards", "refinement"]
    assert not found.trace[-1].move_optimal
    assert found.inside == pytest.approx(DenseProblem(X, 0.3).inside(found.labels.compute()))


@pytest.mark.parametrize("items", [300, 150])
def test_results_do_not_depend_on_workers(client, small_shards, X, solve_here, assert_same, items):
    """In one task at the end, or in rounds of moves."""
    sizes, found = (1, 150, 49, 100), []
    chunks, options = da.from_array(X, chunks=(sizes, (8,))), {"memory_limit": memory_for(items, 8)}
    three = LocalCluster(n_workers=3, threads_per_worker=2, processes=False, dashboard_address=":0")
    with three, Client(three, set_as_default=False) as other:
        for one in (client, other):
            found.append(dense_multicut(chunks, 0.3, client=one, **options))
    expected = solve_here(X, sizes, threshold=0.3, **options)
    for result in found:
        assert_same(result, expected)
        assert (result.objective, result.inside) == (found[0].objective, found[0].inside)  # to the bit


@pytest.mark.parametrize("kind", ["files", "chunks"])
def test_a_checkpoint_of_other_features_is_an_error(client, small_shards, tmp_path, X, kind):
    options = {"threshold": 0.3, "client": client, "memory_limit": memory_for(100, 8)}
    options["checkpoint"] = tmp_path / "kept"

    def features(Z):
        np.save(tmp_path / "x.npy", Z)
        return tmp_path / "x.npy" if kind == "files" else da.from_array(Z, chunks=(100, 8))

    dense_multicut(features(X), **options, time_limit=0)
    with pytest.raises(ValueError, match=r"kept is the checkpoint of another run \(other features\)"):
        dense_multicut(features(X[::-1].copy()), **options)


@pytest.mark.parametrize("how", ["broken", "removed", "folder", "shorter"])
def test_a_file_that_cannot_be_read_by_workers_is_named(
    client, small_shards, tmp_path, X, write_parquet, how
):
    folder = write_parquet(tmp_path / "parts", X, THIRDS)
    bad = folder / "part-1.parquet"
    content = bad.read_bytes()

    def change(*_):
        if bad.is_dir() or not bad.exists() or bad.read_bytes() != content:
            return
        bad.unlink()
        if how == "broken":
            bad.write_bytes(content[: len(content) // 2])
        elif how == "shorter":
            write_parquet(bad, X[:10])
        elif how == "folder":
            bad.mkdir()

    with pytest.raises((ValueError, OSError), match=r"part-1\.parquet") as caught:
        dense_multicut(folder, 0.3, client=client, memory_limit=memory_for(50, 8), callback=change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("center", [False, True])
def test_a_file_that_is_not_finite_is_named(client, small_shards, tmp_path, X, write_parquet, center):
    Z = X.copy()
    Z[260, 3] = np.nan
    folder = write_parquet(tmp_path / "parts", Z, THIRDS)
    with pytest.raises(ValueError, match=r"part-2.parquet has a value that is not finite: NaN in row 60,"):
        dense_multicut(folder, 0.3, client=client, memory_limit=memory_for(50, 8), center=center)


def test_a_chunk_that_is_not_finite_is_an_error(client, X):
    Z = X.copy()
    Z[260, 3] = np.inf
    with pytest.raises(ValueError, match=r"X has a value that is not finite: inf in row 260, column 3"):
        dense_multicut(da.from_array(Z, chunks=(100, 8)), 0.3, client=client)
