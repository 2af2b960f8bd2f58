"""How to choose a threshold: one for all items, a local one, or "auto"; beside methods with more input.

    CLUSTERFUG_DATA=... python benchmarks/thresholds.py [--only NAME ...] [--ours] [--grid] [--json FILE]
    CLUSTERFUG_DATA=... python benchmarks/thresholds.py --ablation [--only NAME ...] [--json FILE]

Agreement with the classes (AMI, ARI), clusters and seconds of every method on every set, then tables. The
sets are in two halves: the rule of "auto" was fixed on DESIGN before it was run on HELD_OUT.

"mixture" is 50 clusters of 10 to 2,000 items, some tight and some loose; "faces" is 300 clusters of 2 to 8
items; "few" is three clusters. Each has several seeds, such as mixture-3; `--only mixture` is all of them.
`--ours` leaves out the methods of others, `--grid` tries more local thresholds. FILE gets a line of JSON
per result. The tables show all lines of it, also of earlier runs (the last one of a set and method);
`--only` without a name runs nothing and shows the tables.

`--ablation` compares the paper's costs, <f_i, f_j> - alpha_i alpha_j, with scaled features,
<f_i/alpha_i, f_j/alpha_j> - 1, both of the alpha of a local threshold; and the first with an alpha from the
mean similarity to all items, the null model of modularity.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import data, digits, truth
from paper.common import table
from run_one import hdbscan
from sklearn import datasets
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score

from clusterfug import DenseProblem, dense_multicut, local_alpha

DESIGN = ["iris", "breast_cancer", "digits", "tinyimagenet-5k", *(f"mixture-{seed}" for seed in range(5))]
DESIGN += ["faces-0", "faces-1", "few-0", "few-1"]
HELD_OUT = ["wine", "clinc150", "tinyimagenet-50k", *(f"mixture-{seed}" for seed in range(5, 10))]
HELD_OUT += ["faces-2", "faces-3", "few-2", "few-3"]
PLANTED = ("mixture", "faces", "few")
ABLATION = ["iris", "wine", "breast_cancer", "digits", "tinyimagenet-5k", "clinc150", "mixture-0"]

GLOBAL = tuple(t / 10 for t in range(1, 10))
STRICTNESS = (0.4, 0.5, 0.6, 0.7, 0.8)
NEIGHBOURS = (10, 20, 50, 100)
KAPPA = (0.4, 0.5, 0.6, 0.7, 0.8)  # share of the planted similarity at which a pair is neutral
RESOLUTION = (0.001, 0.01, 0.1)
GAMMA = (0.5, 0.7, 1.0, 1.5, 2.0)

MARGIN = 0.02  # that "auto" may be below the best global threshold
MOST_PAIRS = 25_000**2  # of methods that look at all pairs
MOST_WORK = 1.5e11  # of HDBSCAN, pairs times dimensions: five minutes

# Columns of the first table: the best of the methods whose names have this prefix.
COLUMNS = {
    "best global (threshold)": "global ",
    "0.4": "global 0.4",
    "local 0.6": "local 0.6 100",
    "best local (strictness, neighbours)": "local ",
    "auto (strictness)": "auto",
    "k-means, true k": "k-means",
    "n_clusters=true k": "n_clusters",
    "HDBSCAN": "HDBSCAN",
    "average linkage, true k": "average linkage",
    "best Leiden (resolution)": "Leiden ",
}


def main():
    chosen = arguments()
    names = ABLATION if chosen.ablation else [*DESIGN, *HELD_OUT]
    rows = {}
    if chosen.json and chosen.json.exists():
        for row in map(json.loads, chosen.json.read_text().splitlines()):
            rows[row["set"], row["method"]] = row
    few = planted("few", 0).X
    for X in (few[:300], few[::2]):  # load the kernels
        dense_multicut(X, "auto", metric="inner_product")
    for name in names:
        if chosen.only is not None and not {name, family(name)} & {*chosen.only}:
            continue
        items = load(name)
        if items is None:
            print(f"{name} is left out: it is not under CLUSTERFUG_DATA")
            continue
        runs = forms(items) if chosen.ablation else ours(name, items, chosen.grid)
        if not (chosen.ablation or chosen.ours):
            runs |= others(items)
        for method, solve in runs.items():
            if row := measured(name, items, method, solve):
                rows[name, method] = row
                if chosen.json:
                    with chosen.json.open("a") as file:
                        file.write(json.dumps(row) + "\n")
    names = [name for name in names if best(rows, name, "")]
    for show_one in (show_forms,) if chosen.ablation else (show_sets, show_requirements, show_planted):
        show_one(rows, names)


def arguments():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--only", nargs="*", metavar="NAME", help="only these sets")
    parser.add_argument("--ours", action="store_true", help="leave out the methods of others")
    parser.add_argument("--grid", action="store_true", help="more local thresholds")
    parser.add_argument("--ablation", action="store_true", help="forms of local costs instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results to this file")
    return parser.parse_args()


class Set(NamedTuple):
    X: Any
    y: Any
    noise: Any = None  # length of the noise of every item, where it is known

    @property
    def k(self):
        return len(np.unique(self.y))


def load(name):
    kind, _, seed = name.partition("-")
    if kind in PLANTED:
        return planted(kind, int(seed))
    if name == "digits":
        return Set(digits(), truth(name))
    if name in ("iris", "wine", "breast_cancer"):
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return Set(unit((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32), y)
    X = data(name)
    return None if X is None else Set(X, truth(name))


def planted(kind, seed):
    """Return clusters around random directions, each with its own noise level."""
    rng = np.random.default_rng(seed)
    if kind == "mixture":
        d, noises = 64, (0.5, 1.2)
        sizes = np.exp(rng.uniform(np.log(10), np.log(2000), size=50)).astype(int)
    elif kind == "faces":
        d, noises = 128, (0.6, 1.0)
        sizes = rng.integers(2, 9, size=300)
    else:
        d, noises = 16, None
        sizes = np.array([1500, 900, 500])
    centres = unit(rng.normal(size=(len(sizes), d)))
    noise = rng.uniform(*noises, size=len(sizes)) if noises else np.array([1.0, 1.5, 2.0])
    y = np.repeat(np.arange(len(sizes)), sizes)
    z = unit(rng.normal(size=(len(y), d)))
    return Set(unit(centres[y] + z * noise[y][:, None]).astype(np.float32), y, noise[y])


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def family(name):
    """Return the name of a set without its seed."""
    kind = name.partition("-")[0]
    return kind if kind in PLANTED else name


def half(name):
    return "design" if name in DESIGN else "held out"


def ours(name, items, grid):
    """Return functions without arguments, by name: they return labels or a Clustering."""
    solve = partial(dense_multicut, items.X, metric="inner_product")
    runs = {f"global {t:g}": partial(solve, t) for t in GLOBAL}
    for s in STRICTNESS if grid else (0.6,):
        for m in NEIGHBOURS if grid else (100,):
            runs[f"local {s:g} {m}"] = partial(solve, "local", strictness=s, n_neighbors=m)
    runs |= {"auto": partial(solve, "auto"), "n_clusters": partial(solve, n_clusters=items.k)}
    if family(name) == "mixture":
        # Two items of one cluster have a similarity of about 1 / (1 + noise^2).
        similarity = 1 / (1 + items.noise**2)
        for kappa in KAPPA:
            runs[f"planted {kappa:g}"] = partial(solve, alpha=np.sqrt(kappa * similarity))
    return runs


def others(items):
    X, k = items.X, items.k
    n, d = X.shape

    def density():
        if n**2 > MOST_PAIRS or n**2 * d > MOST_WORK:
            raise ValueError(f"left out, {n:,} x {d:,} takes more than five minutes")
        return hdbscan(X)

    def linkage():
        if n**2 > MOST_PAIRS:
            raise ValueError(f"left out, {n:,} items have too many distances to store")
        return AgglomerativeClustering(k, metric="cosine", linkage="average").fit_predict(X)

    return {
        "k-means": lambda: KMeans(k, n_init=4, random_state=0).fit_predict(X),
        "HDBSCAN": density,
        "average linkage": linkage,
        **{f"Leiden {r:g}": partial(leiden, X, r) for r in RESOLUTION},
    }


def leiden(X, resolution):
    """Return labels of CPM on the graph of the 15 nearest neighbours with positive similarity."""
    import igraph
    import leidenalg

    from clusterfug.neighbours.exact import exact_neighbours

    ids, similarities = exact_neighbours(DenseProblem(X, 0.0), 15)
    pairs = np.stack([np.repeat(np.arange(len(X)), ids.shape[1]), ids.ravel()], axis=1)
    pairs, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    weights = similarities.ravel()[first]
    part = leidenalg.find_partition(
        igraph.Graph(n=len(X), edges=pairs[weights > 0]),
        leidenalg.CPMVertexPartition,
        weights=weights[weights > 0],
        resolution_parameter=resolution,
        seed=0,
    )
    return np.array(part.membership)


def forms(items):
    """Return solvers with two forms of costs of an affinity strength, and with another strength."""
    X, runs = items.X, {}
    fast = partial(dense_multicut, algorithm="fast", metric="inner_product")
    strength = local_alpha(X, 1.0)
    for s in STRICTNESS:
        alpha = np.sqrt(s) * strength
        runs[f"form paper {s}"] = partial(fast, X, alpha=alpha)
        runs[f"form scaled {s}"] = partial(fast, (X / alpha[:, None]).astype(X.dtype), 1.0)
    mean = np.clip(X @ X.mean(axis=0), 0, None)
    for gamma in GAMMA:
        runs[f"form null {gamma}"] = partial(fast, X, alpha=np.sqrt(gamma / mean.mean()) * mean)
    return runs


def measured(name, items, method, solve):
    """Return one row, or None if the method raises an error, which is printed."""
    begin = time.perf_counter()
    try:
        found = solve()
    except Exception as error:
        print(f"{name}, {method}: {type(error).__name__}: {error}", flush=True)
        return None
    seconds = time.perf_counter() - begin
    labels = getattr(found, "labels", found)
    ami = float(adjusted_mutual_info_score(items.y, labels))
    ari = float(adjusted_rand_score(items.y, labels))
    clusters = len(np.unique(labels))
    print(
        f"{name}, {method}: AMI {ami:.3f}, ARI {ari:.3f}, {clusters:,} clusters, {seconds:.2f} s",
        flush=True,
    )
    row = {"set": name, "half": half(name), "n": len(items.X), "classes": items.k, "method": method}
    row |= {"AMI": ami, "ARI": ari, "clusters": clusters, "seconds": seconds}
    choice = getattr(found, "choice", None)
    return row | ({} if choice is None else {"strictness": choice.strictness, "reason": choice.reason})


def best(rows, name, prefix):
    """The row of largest AMI of a set among methods whose names begin so, or None."""
    fitting = [row for (of, method), row in rows.items() if of == name and method.startswith(prefix)]
    return max(fitting, key=lambda row: row["AMI"], default=None)


def show(title, headings, lines):
    if lines:
        print(f"\n## {title}\n\n{table(headings, lines)}")


def span(values):
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def cell(rows, names, prefix):
    """Mean AMI over seeds, the worst of them, and which it was of several methods."""
    found = [row for name in names if (row := best(rows, name, prefix))]
    if not found:
        return ""
    scores = [row["AMI"] for row in found]
    text = f"{np.mean(scores):.3f}" + (f", min {min(scores):.3f}" if len(scores) > 1 else "")
    which = {row["method"].removeprefix(prefix) for row in found}
    if prefix == "auto":
        which = {f"{row['strictness']:.2g}" for row in found}
        text += f", {span([row['clusters'] for row in found])} clusters"
    return text + (f" ({' or '.join(sorted(which))})" if any(which) else "")


def show_sets(rows, names):
    lines = []
    for kind in dict.fromkeys(map(family, names)):
        seeds = [name for name in names if family(name) == kind]
        halves = " and ".join(sorted({half(name) for name in seeds}))
        known = [best(rows, name, "") for name in seeds]
        sizes = [span([row[key] for row in known]) for key in ("n", "classes")]
        lines.append((kind, halves, *sizes, *(cell(rows, seeds, prefix) for prefix in COLUMNS.values())))
    show("AMI per set; of several seeds the mean", ("set", "half", "n", "k", *COLUMNS), lines)


def show_requirements(rows, names):
    lines, scores = [], {}
    for name in names:
        found = [best(rows, name, prefix) for prefix in ("global ", "auto", "global 0.4")]
        if all(found):
            top, auto, fixed = (row["AMI"] for row in found)
            scores[name] = auto, fixed
            holds = "yes" if auto >= top - MARGIN else "no"
            lines.append((name, half(name), f"{top:.3f}", f"{auto:.3f}", f"{auto - top:+.3f}", holds))
    headings = ("set", "half", "best global", "auto", "difference", f"auto >= best - {MARGIN:g}")
    show('Is "auto" as good as the best global threshold?', headings, lines)
    lines = []
    for which in ("design", "held out", "all"):
        some = [name for name in scores if which in ("all", half(name))]
        if some:
            # All seeds of a set together have the weight of one set.
            share = [1 / sum(family(name) == family(other) for other in some) for name in some]
            values = [scores[name] for name in some]
            means = (*np.mean(values, axis=0), *np.average(values, axis=0, weights=share))
            lines.append((which, len(some), *(f"{mean:.3f}" for mean in means)))
    headings = ("sets", "count", "auto", "0.4", "auto, seeds as one set", "0.4, seeds as one set")
    show('Mean AMI of "auto" and of 0.4', headings, lines)


def show_planted(rows, names):
    lines = []
    for name in names:
        top, auto = best(rows, name, "planted "), best(rows, name, "auto")
        if top and auto:
            scores = (top["AMI"], auto["AMI"], auto["AMI"] / top["AMI"])
            kappa = top["method"].split()[-1]
            lines.append((name, half(name), kappa, *(f"{score:.3f}" for score in scores)))
    if lines:
        lines.append(("worst", "", "", "", "", min(line[-1] for line in lines)))
    headings = ("set", "half", "best kappa", "planted alpha", "auto", "ratio")
    show("Mixtures: beside the alpha of the noise that was planted", headings, lines)


def show_forms(rows, names):
    titles = {
        "paper": ("<f_i, f_j> - alpha_i alpha_j, by strictness", STRICTNESS),
        "scaled": ("<f_i/alpha_i, f_j/alpha_j> - 1, by strictness", STRICTNESS),
        "null": ("the null model of modularity, by gamma", GAMMA),
    }
    for form, (title, values) in titles.items():
        lines = [(n, *(cell(rows, [n], f"form {form} {value}") for value in values)) for n in names]
        show(f"AMI with {title}", ("set", *map(str, values)), [line for line in lines if any(line[1:])])


if __name__ == "__main__":
    main()
