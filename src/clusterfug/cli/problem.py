"""From the options of a command to a problem: `cluster`, `bound` and `evaluate` share it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterfug.cli.shared import Metric, Prefer, no_options

if TYPE_CHECKING:
    from clusterfug.io.settings import LabelSettings


@dataclass(frozen=True)
class CostOptions:
    """The options that describe the costs of features; None where they are not given."""

    threshold: str | None = None
    strictness: float | None = None
    n_neighbors: int | None = None
    n_clusters: str | None = None
    alpha: str | None = None
    prefer: Prefer = Prefer.small
    weights: Path | None = None
    metric: Metric | None = None
    center: bool | None = None

    def __post_init__(self) -> None:
        if self.alpha is not None and self.threshold is not None:
            raise ValueError("give --threshold or --alpha, not both")
        if self.n_clusters is not None and self.threshold not in (None, "local", "auto"):
            raise ValueError("--n-clusters chooses a local threshold: leave out --threshold")
        _number_or_name(self.threshold)
        _count_or_range(self.n_clusters)

    @property
    def inputs(self) -> list[Path]:
        """Files that the options name."""
        alpha = None if self.alpha is None or _is_number(self.alpha) else Path(self.alpha)
        return [path for path in (self.weights, alpha) if path is not None]

    @property
    def describes_costs(self) -> bool:
        """Whether costs are given, beside preprocessing and weights."""
        given = (self.threshold, self.strictness, self.n_neighbors, self.n_clusters, self.alpha)
        return any(value is not None for value in given)

    def not_for_graphs(self, path: Path) -> None:
        """Raise an error if an option is given that describes features."""
        no_options(self._given(), f"goes with features, but {path} holds a graph")

    def not_without_features(self) -> None:
        """Raise an error if an option is given although there are no features."""
        no_options(self._given(), "goes with --features")

    def _given(self) -> dict[str, Any]:
        return {
            "--threshold": self.threshold,
            "--strictness": self.strictness,
            "--n-neighbors": self.n_neighbors,
            "--n-clusters": self.n_clusters,
            "--alpha": self.alpha,
            "--prefer": None if self.prefer == Prefer.small else self.prefer,
            "--weights": self.weights,
            "--metric": self.metric,
            "--center": self.center,
        }

    def problem(self, X: Any, file_threshold: float | None, settings: "LabelSettings | None" = None) -> Any:
        """Return the problem of features; what is not given comes from the settings of labels, if there
        are any.

        A text file that says its threshold is a finished problem, whose rows are used as they are.
        """
        from clusterfug.api import feature_problem
        from clusterfug.io import labels as label_files

        costs: dict[str, Any] = {
            "threshold": _number_or_name(self.threshold),
            "strictness": self.strictness,
            "n_neighbors": self.n_neighbors,
            "n_clusters": _count_or_range(self.n_clusters),
            "prefer": self.prefer.value,
            "metric": None if self.metric is None else self.metric.value,
            "center": self.center,
        }
        if self.alpha is not None:
            is_file = not _is_number(self.alpha)
            costs["alpha"] = label_files.read_column(Path(self.alpha)) if is_file else float(self.alpha)
        if self.weights is not None:
            costs["sample_weight"] = label_files.read_column(self.weights)
        if not self.describes_costs and settings is not None:
            costs["threshold"] = settings.costs(has_weights=self.weights is not None)
        elif not self.describes_costs and file_threshold is not None:
            costs["threshold"] = file_threshold
        if self.metric is None and self.center is None and settings is not None:
            costs |= {"metric": settings.metric, "center": settings.center}
        elif self.metric is None and file_threshold is not None:
            costs["metric"] = "inner_product"
        return feature_problem(X, **costs)


def settings_for(
    labels: Path, given: Any, costs: CostOptions, file_threshold: float | None
) -> "LabelSettings | None":
    """Return the settings of a label file, or None where they are not needed.

    If neither the options, nor the features, nor the labels say what the costs are, that is an error:
    costs of another problem would mean nothing.
    """
    from clusterfug.io.labels import read_settings

    settings = read_settings(labels, given)
    if settings is None and not costs.describes_costs and file_threshold is None:
        raise ValueError(
            f"{labels} does not say which costs it was solved with: give --threshold (and --metric, "
            "--center) as they were; clusterfug cluster -o writes them with the labels"
        )
    return settings


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number_or_name(text: str | None) -> float | str | None:
    """Return what --threshold says."""
    if text is None or text in ("local", "auto"):
        return text
    if not _is_number(text):
        raise ValueError(f"--threshold must be a number, local or auto, not {text!r}")
    return float(text)


def _count_or_range(text: str | None) -> int | tuple[int, int] | None:
    """Return what --n-clusters says: N or LOW:HIGH."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise ValueError(f"--n-clusters must be N or LOW:HIGH (140:160), not {text!r}")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
