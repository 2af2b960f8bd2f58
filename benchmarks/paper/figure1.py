"""Figures 1 to 3: dense multicut in the plane, drawn from real runs.

python benchmarks/paper/figure1.py
"""

import numpy as np
from common import figure, save, write

from clusterfug import DenseProblem, dense_multicut
from clusterfug.neighbours.exact import exact_neighbours

ATTRACT, REPEL, GREY = "#2a9d57", "#d1495b", "#9aa0a6"
COLOURS = ("#4c78c8", "#e0a030", "#8e5ea2", "#4fa3a5", "#c85a8a", "#7a9e3b", "#b07050", "#6b6b6b")


def main():
    one, two, three = figure1(), figure2(), figure3()
    parts = [
        "## Figure 1: a dense multicut problem",
        "Five nodes with features in the plane. Every pair has a cost, the inner product of its features: "
        "green attracts, red repels, the width is the size. The best of all partitions "
        f"({one} clusters) cuts the dashed pairs.",
        "![Figure 1](figure1.png)",
        "## Figure 2: a contraction on the neighbour graph",
        f"The two best partners of every node, before and after the pair of largest cost, {two[0]} and "
        f"{two[1]}, is contracted. The new node is the sum of the two features. Only nodes that named one "
        "of the two need another partner.",
        "![Figure 2](figure2.png)",
        "## Figure 3: why a threshold",
        "Eight unit vectors. Without a threshold two neighbours always attract (their inner product is "
        "0.71), so there is no way to keep all apart: "
        f"{', '.join(f'{k} clusters at {t:g}' for t, k in three)}.",
        "![Figure 3](figure3.png)",
    ]
    write("figure1", "Figures 1 to 3: illustrations", parts)


def polar(degrees, lengths):
    angle = np.deg2rad(degrees)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.asarray(lengths)[:, None]


def figure1():
    X = polar([90, 44, 290, 250, 136], [2.0, 1.6, 1.0, 1.0, 1.6])
    problem = DenseProblem(X, threshold=0.0)
    result = dense_multicut(problem, algorithm="best", max_iter=50)
    drawing, axes = figure(4.2, 4.2)
    costs = X @ X.T
    for i in range(5):
        for j in range(i):
            cut = result.labels[i] != result.labels[j]
            axes.plot(
                *X[[i, j]].T,
                color=ATTRACT if costs[i, j] > 0 else REPEL,
                linewidth=0.6 + 1.6 * abs(costs[i, j]),
                linestyle="--" if cut else "-",
                zorder=1,
            )
    for i, (x, y) in enumerate(X):
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": GREY, "linestyle": ":"})
        dot(axes, x, y, result.labels[i], "abcde"[i])
    plain(axes)
    save(drawing, "figure1")
    return result.n_clusters


def figure2():
    X = polar([20, 48, 75, 110, 200, 230, 262, 330], [1.3, 1.7, 1.5, 1.2, 1.2, 1.6, 1.2, 1.1])
    first = dense_multicut(X, 0.0, algorithm="dgaec-inc", k=2, metric="inner_product").merges[0]
    i, j = int(first["i"]), int(first["j"])
    labels = np.arange(len(X))
    labels[labels == j] = i
    labels = np.unique(labels, return_inverse=True)[1]
    contracted = DenseProblem(X, 0.0).contract(labels)
    drawing, panels = figure(9, 4.4, 2)
    letters = [chr(ord("a") + t) for t in range(len(X))]
    after = ["".join(letters[t] for t in np.flatnonzero(labels == k)) for k in range(contracted.n)]
    for axes, problem, names, title in (
        (panels[0], DenseProblem(X, 0.0), letters, f"{letters[i]} and {letters[j]} cost most"),
        (panels[1], contracted, after, "contracted: their features add"),
    ):
        places = problem.rows.features
        found = exact_neighbours(problem, 2)
        for u in range(problem.n):
            for v, cost in zip(found.ids[u], found.costs[u], strict=True):
                if cost > 0:
                    style = {"arrowstyle": "->", "color": GREY, "shrinkA": 9, "shrinkB": 9}
                    axes.annotate("", places[v], places[u], arrowprops=style)
        for u, (x, y) in enumerate(places):
            marked = names[u] in (letters[i], letters[j]) or len(names[u]) > 1
            dot(axes, x, y, 0 if marked else 7, names[u])
        axes.set_title(title)
        plain(axes)
    save(drawing, "figure2")
    return letters[i], letters[j]


def figure3():
    X = polar(np.arange(8) * 45 + 90, np.ones(8))
    thresholds = (0.0, 0.4, 0.8)
    drawing, panels = figure(10, 3.8, 3)
    counts = []
    for axes, threshold in zip(panels, thresholds, strict=True):
        result = dense_multicut(X, threshold, algorithm="best", max_iter=50, metric="inner_product")
        counts.append((threshold, result.n_clusters))
        for i, (x, y) in enumerate(X):
            colour = COLOURS[result.labels[i]]
            axes.annotate(
                "", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 2}
            )
            axes.text(1.15 * x, 1.15 * y, "abcdefgh"[i], ha="center", va="center", color=colour)
        neighbours = X[0] @ X[1] - threshold
        axes.set_title(
            f"threshold {threshold:g}: neighbours cost {neighbours:+.2f}, {result.n_clusters} clusters"
        )
        axes.title.set_fontsize(9)
        axes.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))
        plain(axes)
    save(drawing, "figure3")
    return counts


def dot(axes, x, y, colour, name):
    axes.scatter(x, y, s=220, color=COLOURS[colour], edgecolor="white", zorder=3)
    axes.text(x, y, name, ha="center", va="center", fontsize=8, color="white", zorder=4)


def plain(axes):
    axes.set_aspect("equal")
    axes.axis("off")


if __name__ == "__main__":
    main()
