"""Compiled functions for costs: between two items, or two sets of items, from their features.

Every pair cost is an indefinite inner product  cost(i, j) = sum_d sigma_d g_id g_jd  of the extended
rows  g_i = weight_i * [f_i, alpha_i].  A *query* is a row with its feature columns times the signature, so
a cost is an inner product <query_i, g_j> (the paper's query/index trick), and the row of a set of items is
the sum of their rows (the contraction lemma). Only this file and `DenseProblem` know about the column.

Sums are accumulated in float64 whatever the features are stored in, in an order that does not depend on
threads. The term of the last column is added last, as sigma * (alpha_i * alpha_j): with whole masses it has
no rounding of its own, so equal costs stay equal.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel, reduction

_TILE = 32  # rows and columns that are transposed at once

Floats = NDArray[Any]  # of float32 or float64
Ints = NDArray[Any]


class ExtendedRows(NamedTuple):
    """The arrays that define all pair costs; read-only."""

    features: Floats  # (n, d) float32 or float64, C order
    alpha: Floats  # (n,) float64, the last column of the extended rows
    weight: Floats  # (n,) float64
    signature: Floats  # (d + 1,) float64


@kernel
def add_row(rows: ExtendedRows, i: int, out: Floats) -> None:
    """out += the extended row of item i."""
    d = rows.features.shape[1]
    for p in range(d):
        out[p] += rows.weight[i] * rows.features[i, p]
    out[d] += rows.weight[i] * rows.alpha[i]


@kernel
def apply_signature(rows: ExtendedRows, row: Floats) -> None:
    """Turn an extended row into a query, in place."""
    for p in range(rows.features.shape[1]):
        row[p] *= rows.signature[p]


@kernel
def query_of_item(rows: ExtendedRows, i: int, out: Floats) -> None:
    """out = the query of item i."""
    out[:] = 0.0
    add_row(rows, i, out)
    apply_signature(rows, out)


@reduction
def cost_to_item(rows: ExtendedRows, query: Floats, j: int) -> float:
    """Cost between the item or set of a query and item j."""
    d = rows.features.shape[1]
    total = 0.0
    for p in range(d):
        total += query[p] * rows.features[j, p]
    return rows.weight[j] * total + rows.signature[d] * (query[d] * (rows.weight[j] * rows.alpha[j]))


@kernel
def costs_to_items(rows: ExtendedRows, query: Floats, start: int, stop: int, costs: Floats) -> None:
    """Costs between the item or set of a query and items start..stop-1."""
    for j in range(start, stop):
        costs[j] = cost_to_item(rows, query, j)


@kernel
def costs_of_pairs(rows: ExtendedRows, pairs: Ints, costs: Floats) -> None:
    """Costs of pairs (m, 2) of items."""
    query = np.empty(rows.signature.shape[0])
    for t in range(pairs.shape[0]):
        if t == 0 or pairs[t, 0] != pairs[t - 1, 0]:
            query_of_item(rows, pairs[t, 0], query)
        costs[t] = cost_to_item(rows, query, pairs[t, 1])


@reduction
def cost_to_row(rows: ExtendedRows, query: Floats, row: Floats) -> float:
    """Cost between the item or set of a query and a set with this extended row."""
    d = rows.features.shape[1]
    total = 0.0
    for p in range(d):
        total += query[p] * row[p]
    return total + rows.signature[d] * (query[d] * row[d])


@reduction
def cost_to_rest(rows: ExtendedRows, query: Floats, row: Floats) -> float:
    """Cost between the item of a query and the other items of a set with this extended row.

    The item's own row is subtracted before the product: the cost of a long row to itself would hide its
    costs to short ones.
    """
    d = rows.features.shape[1]
    total = 0.0
    for p in range(d):
        total += query[p] * (row[p] - rows.signature[p] * query[p])
    return total + rows.signature[d] * (query[d] * (row[d] - query[d]))


@reduction
def term_magnitude(rows: ExtendedRows, terms: Floats, others: Floats) -> float:
    """Sum of the magnitudes of the terms of a cost: sum_d |sigma_d| |g_d| |h_d|, from absolute rows."""
    total = 0.0
    for p in range(terms.shape[0]):
        total += abs(rows.signature[p]) * terms[p] * others[p]
    return total


@kernel
def add_terms_before(rows: ExtendedRows, start: int, stop: int, sums: Floats) -> float:
    """Total magnitude of the terms of the costs of items start..stop-1 to all items before them.

    `sums` holds the sum of the absolute rows of the items before `start`; those of the items are added.
    """
    d = rows.features.shape[1]
    total = 0.0
    for i in range(start, stop):
        for p in range(d):
            term = abs(rows.weight[i] * rows.features[i, p])
            total += term * sums[p]
            sums[p] += term
        term = abs(rows.weight[i] * rows.alpha[i])
        total += abs(rows.signature[d]) * term * sums[d]
        sums[d] += term
    return total


@kernel
def add_costs(
    rows: ExtendedRows, items: Ints, labels: Ints, start: int, stop: int, seen: Floats, insides: Floats
) -> float:
    """insides[c] += total cost of the pairs with label c whose second item is one of items[start:stop].

    Returns the total cost of the other pairs. The items are sorted by label. The cost of an item to earlier
    ones is computed from the sums of the rows of its cluster, seen[0], and of the clusters before it,
    seen[1], which stay there for the next call.
    """
    query = np.empty(seen.shape[1])
    across = 0.0
    for t in range(start, stop):
        if t > 0 and labels[t] != labels[t - 1]:
            seen[1] += seen[0]
            seen[0] = 0.0
        query[:] = seen[0]
        apply_signature(rows, query)
        insides[labels[t]] += cost_to_item(rows, query, items[t])
        if labels[t] != labels[0]:
            query[:] = seen[1]
            apply_signature(rows, query)
            across += cost_to_item(rows, query, items[t])
        add_row(rows, items[t], seen[0])
    return across


@kernel
def sum_rows(rows: ExtendedRows, items: Ints, labels: Ints, sums: Floats) -> None:
    """sums[labels[t]] += the extended row of items[t]."""
    for t in range(items.shape[0]):
        add_row(rows, items[t], sums[labels[t]])


@kernel
def sum_absolute_rows(rows: ExtendedRows, items: Ints, labels: Ints, sums: Floats) -> None:
    """sums[labels[t]] += the absolute values of the extended row of items[t]."""
    d = rows.features.shape[1]
    for t in range(items.shape[0]):
        i = items[t]
        for p in range(d):
            sums[labels[t], p] += abs(rows.weight[i] * rows.features[i, p])
        sums[labels[t], d] += abs(rows.weight[i] * rows.alpha[i])


@reduction
def squared_norms(
    rows: ExtendedRows, start: int, stop: int, query_norms: Floats, row_norms: Floats
) -> None:
    """Squared lengths of the queries (last column times its signature) and of the extended rows."""
    d = rows.features.shape[1]
    for i in range(start, stop):
        total = 0.0
        for p in range(d):
            total += np.float64(rows.features[i, p]) * rows.features[i, p]
        total *= rows.weight[i] ** 2
        last = (rows.weight[i] * rows.alpha[i]) ** 2
        row_norms[i] = total + last
        query_norms[i] = total + last * rows.signature[d] ** 2


@kernel
def own_costs(rows: ExtendedRows, start: int, stop: int, own: Floats, magnitudes: Floats) -> None:
    """Costs of items start..stop-1 to themselves, and magnitudes u with |cost(i, j)| <= u_i u_j.

    u_i = sqrt(|f_i|^2 + |sigma| alpha_i^2), by the inequality of Cauchy and Schwarz.
    """
    query = np.empty(rows.signature.shape[0])
    d = rows.features.shape[1]
    for i in range(start, stop):
        query_of_item(rows, i, query)
        own[i] = cost_to_item(rows, query, i)
        total = 0.0
        for p in range(d):
            total += query[p] * query[p]
        magnitudes[i] = np.sqrt(total + abs(rows.signature[d]) * query[d] * query[d])


@kernel
def mean_rows(features: Floats, weight: Floats, items: Ints, starts: Ints, means: Floats) -> None:
    """means[c] = the weighted mean feature of items[starts[c]:starts[c + 1]], summed in float64."""
    total = np.empty(features.shape[1])
    for c in range(means.shape[0]):
        total[:] = 0.0
        mass = 0.0
        for i in items[starts[c] : starts[c + 1]]:
            mass += weight[i]
            for p in range(total.shape[0]):
                total[p] += weight[i] * features[i, p]
        for p in range(total.shape[0]):
            means[c, p] = total[p] / mass


@kernel
def mirror(costs: Floats, top: int, bottom: int) -> None:
    """Copy rows top..bottom-1 right of the diagonal to the columns below it, tile by tile.

    The diagonal becomes -inf.
    """
    n = costs.shape[0]
    for left in range(top, n, _TILE):
        right = min(n, left + _TILE)
        for above in range(top, bottom, _TILE):
            below = min(bottom, above + _TILE)
            for c in range(left, right):
                for r in range(above, min(below, c)):
                    costs[c, r] = costs[r, c]
    for r in range(top, bottom):
        costs[r, r] = -np.inf
