"""Dependence of DAppLAEC on the number k of neighbours per node.

CLUSTERFUG_DATA=... python benchmarks/paper/neighbours.py [--full]
"""

from common import is_full, table, write
from measure import run_one

KS = (1, 2, 3, 5, 10, 20)


def main():
    full = is_full(__doc__)
    parts = ["`dapplaec` at threshold 0.4. The paper uses k = 5 (between 1 and 5 for time)."]
    sets = ("tinyimagenet-5k", "clinc150", "tinyimagenet-50k") if full else ("tinyimagenet-5k", "clinc150")
    for name in sets:
        rows = []
        for k in KS:
            row = run_one(name, 0.4, "dapplaec", repeat=3 if full else 1, k=k)
            figures = f"{row['seconds']:.2f}", f"{row['G']:.2f}", f"{row['inside']:,.0f}"
            rows.append((k, *figures, f"{row['clusters']:,}", f"{row['AMI']:.3f}"))
        parts += [f"## {name}", table(("k", "t [s]", "in G", "inside", "clusters", "AMI"), rows)]
    write("neighbours", "Neighbours per node of DAppLAEC", parts, full)


if __name__ == "__main__":
    main()
