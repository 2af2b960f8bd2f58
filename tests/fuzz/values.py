"""Generators of features, weights and costs that are valid, however unusual."""

import numpy as np


def sizes(rng):
    """Return n and d: mostly so few items that all clusterings can be enumerated."""
    kind = rng.random()
    n = rng.integers(1, 9) if kind < 0.75 else rng.integers(9, 40) if kind < 0.97 else rng.integers(40, 300)
    return int(n), int(rng.integers(1, 7))


def powers(rng, size, largest=30):
    """Return powers of ten of any magnitude."""
    return 10.0 ** rng.integers(-largest, largest + 1, size=size)


def features(rng, n, d):
    """Return a float64 array (n, d): planted clusters, ties, duplicates, any scale of rows and columns."""
    kind = rng.integers(6)
    if kind == 0:
        X = rng.normal(size=(n, d))
    elif kind == 1:
        X = rng.integers(-2, 3, size=(n, d)).astype(np.float64)
    elif kind == 2:
        X = np.eye(d)[rng.integers(d, size=n)] + 0.1 * rng.normal(size=(n, d))
    elif kind == 3:
        X = np.outer(rng.choice([-1.0, 1.0, 0.5], size=n), rng.normal(size=d))
    elif kind == 4:
        X = rng.choice([-1.0, 1.0], size=(n, d)) / np.sqrt(d)
    else:
        X = rng.normal(size=(1, d)) * (1 + 2.0 ** -rng.integers(20, 53) * rng.integers(-3, 4, size=(n, d)))
    if rng.random() < 0.3:
        X[rng.random(n) < 0.4] = X[0]
    if rng.random() < 0.2:
        X[rng.random(n) < 0.3] = 0.0
    if rng.random() < 0.2:
        X *= powers(rng, ())
    if rng.random() < 0.15:
        X *= powers(rng, (n, 1), 12)
    if rng.random() < 0.1:
        X *= powers(rng, d, 12)
    if rng.random() < 0.05:
        X *= powers(rng, (n, d), 12)
    if rng.random() < 0.1:
        X += rng.normal(size=d) * 10
    if rng.random() < 0.02:
        X[rng.integers(n)] *= 1e-310
    return X


def presented(rng, X):
    """Return the same numbers, up to their precision, in an unusual array, and as float64."""
    kind = rng.integers(12)
    with np.errstate(over="ignore"):
        if kind < 3:
            X = X.astype(np.float32)
        elif kind == 3 and np.abs(X).max() < 6e4:
            X = X.astype(np.float16)
        elif kind == 4 and np.abs(X).max() < 100:
            X = np.rint(X).astype(rng.choice([np.int8, np.int16, np.int32, np.int64]))
        elif kind == 5:
            X = X > 0
        elif kind == 6:
            X = X.astype(rng.choice([">f4", ">f8"]))
    if not np.isfinite(X).all():
        X = np.nan_to_num(X, posinf=1.0, neginf=-1.0)
    exact = X.astype(np.float64)
    shape = rng.integers(9)
    if shape == 0:
        X = np.asfortranarray(X)
    elif shape == 1:
        X = np.repeat(X, 2, axis=0)[::2]
    elif shape == 2:
        X = np.ascontiguousarray(X[:, ::-1])[:, ::-1]
    elif shape == 3:
        X = X.tolist()
    elif shape == 4:
        X.setflags(write=False)
    elif shape == 5:
        buffer = np.zeros(X.nbytes + 1, dtype=np.uint8)
        unaligned = buffer[1:].view(X.dtype).reshape(X.shape)
        unaligned[...] = X
        X = unaligned
    return X, exact


def weights(rng, n):
    """Return weights, not all of them 0, or None."""
    kind = rng.integers(10)
    if kind < 6:
        return None
    if kind == 6:
        weight = rng.integers(0, 4, size=n).astype(np.float64)
    elif kind == 7:
        weight = rng.random(n) + 0.1
    elif kind == 8:
        weight = powers(rng, n, 12)
    else:
        weight = rng.integers(0, 2, size=n)
    if not weight.any():
        weight[rng.integers(n)] = 1
    return weight


def number_costs(rng, X):
    """Return arguments for costs that are numbers: a threshold, or alpha."""
    n = len(X)
    with np.errstate(over="ignore"):
        pair = float(X[rng.integers(n)] @ X[rng.integers(n)])
    kind = rng.integers(10)
    if kind < 2:
        return {"threshold": float(rng.choice([0.0, 0.4, -0.2, 0.9, 1.0]))}
    if kind < 5 and abs(pair) < 1e140:
        return {"threshold": pair}  # some pairs are neutral
    if kind == 5:
        return {"threshold": float(rng.choice([-1, 1]) * powers(rng, ()))}
    if kind == 6:
        return {"alpha": float(abs(rng.normal()))}
    if kind == 7:
        alpha = np.abs(rng.normal(size=n)) * (powers(rng, n, 12) if rng.random() < 0.3 else 1.0)
        return {"alpha": alpha, "prefer": str(rng.choice(["small", "large"]))}
    scale = float(np.median(np.abs(X @ X.T))) if np.abs(X).max() < 1e70 else 1.0
    return {"threshold": scale * float(rng.random())}


def labels(rng, n):
    """Return labels of any numbering."""
    found = rng.integers(0, 1 + rng.integers(n), size=n)
    return found * int(rng.choice([1, 7, -3])) + int(rng.choice([0, 10, 2**40]))
