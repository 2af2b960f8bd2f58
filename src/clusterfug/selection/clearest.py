"""The cost model `Auto`: the default strictness, unless another one gives clearly better clusters."""

from dataclasses import replace

from clusterfug.costs.models import STRICTNESS
from clusterfug.result import Clustering
from clusterfug.selection.candidates import Candidate, StrictnessSearch

_LADDER = (0.22, 0.36, STRICTNESS, 1.0, 1.7, 2.8)
_MAX_CANDIDATES = 5
#: By how much the score of another strictness must exceed that of the default.
MIN_SCORE_GAIN = 0.06
_SMALL_CLUSTER_CONTRAST = 1.5  # from this contrast on clusters may be smaller than neighbourhoods
_MIN_SILHOUETTE = 0.1  # below, the reason says that clusters are not well separated


def clearest(search: StrictnessSearch) -> Clustering:
    """Return the clustering of the best candidate.

    Candidates are tried outwards from the default strictness while the best one is at an end.

    A more lenient candidate starts from the labels of the one before, since joining is what is left to do.
    A stricter one starts anew, and is tried only where clusters may be smaller than neighbourhoods.
    """
    solver = search.solver
    default = search.attempt(STRICTNESS, search.fast(search.init))
    search.attempt(_LADDER[_LADDER.index(STRICTNESS) - 1], search.fast(default.labels))
    strictest = STRICTNESS
    if search.items.around.contrast > _SMALL_CLUSTER_CONTRAST:
        strictest = _LADDER[-1]
        search.attempt(_LADDER[_LADDER.index(STRICTNESS) + 1], search.fast())
    while True:
        scores = search.scores()
        best = max(search.tried, key=lambda candidate: scores[candidate.strictness])
        step = _LADDER.index(best.strictness)
        if len(scores) == _MAX_CANDIDATES:
            break
        if best is search.tried[0] and step > 0:
            search.attempt(_LADDER[step - 1], search.fast(best.labels))
        elif best is search.tried[-1] and best.strictness < strictest:
            search.attempt(_LADDER[step + 1], search.fast())
        else:
            break
    if not scores[best.strictness] > scores[STRICTNESS] + MIN_SCORE_GAIN:
        best = default
    if solver.name == "fast" and not search.bound:
        return search.chosen(best.result, best.strictness, _why(best, scores))
    init = None if search.items.starts_often else best.labels
    result = search.final(best.strictness, _why(best, scores), init)
    if "torch" in solver.executions and best.result.inside > result.inside:  # all starts are worse
        result = replace(
            best.result,
            algorithm=solver.name,
            bound=result.bound,
            choice=result.choice,
            costs=result.costs,
        )
    return result


def _why(best: Candidate, scores: dict[float, float]) -> str:
    if best.strictness == STRICTNESS:
        reason = f"strictness {STRICTNESS:g}, the default: of {len(scores)} tried none is clearly better"
    else:
        reason = (
            f"strictness {best.strictness:.2g}, the best of {len(scores)} tried: it scores "
            f"{scores[best.strictness]:.2f}, the default {STRICTNESS:g} scores {scores[STRICTNESS]:.2f}"
        )
    if best.silhouette < _MIN_SILHOUETTE and best.n_clusters > 1:
        reason += f"; clusters are not well separated (silhouette {best.silhouette:.2f})"
    return reason
