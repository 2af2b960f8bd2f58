"""Selection for the cost model `Auto`: the strictnesses that are tried, and which of them is selected."""

from dataclasses import replace

from clusterfug.costs.models import STRICTNESS
from clusterfug.result import Clustering
from clusterfug.selection.candidates import Candidate, StrictnessSearch

_STRICTNESSES = (0.22, 0.36, STRICTNESS, 1.0, 1.7, 2.8)
_DEFAULT = _STRICTNESSES.index(STRICTNESS)
_MAX_CANDIDATES = 5
#: Difference by which the score of another strictness must exceed that of the default.
MIN_SCORE_GAIN = 0.06
_SMALL_CLUSTER_CONTRAST = 1.5  # above this contrast clusters may be smaller than neighbourhoods
_MIN_SILHOUETTE = 0.1  # below it the reason says that clusters are not well separated


def clearest(search: StrictnessSearch) -> Clustering:
    """Return the clustering of the candidate with the highest score.

    Candidates are tried outwards from the default strictness as long as the best one is at an end. A lower
    strictness starts from the labels of the candidate above it, since only joins are left to do. A higher
    one starts from singletons, and is tried only where clusters may be smaller than neighbourhoods.
    """
    solver = search.solver
    default = search.add_candidate(STRICTNESS, search.fast_solver(search.init))
    search.add_candidate(_STRICTNESSES[_DEFAULT - 1], search.fast_solver(default.labels))
    strictest = STRICTNESS
    if search.items.neighbourhood.contrast > _SMALL_CLUSTER_CONTRAST:
        strictest = _STRICTNESSES[-1]
        search.add_candidate(_STRICTNESSES[_DEFAULT + 1], search.fast_solver())
    while True:
        scores = search.scores()
        best = max(search.tried, key=lambda candidate: scores[candidate.strictness])
        at = _STRICTNESSES.index(best.strictness)
        if len(scores) == _MAX_CANDIDATES:
            break
        if best is search.tried[0] and at > 0:
            search.add_candidate(_STRICTNESSES[at - 1], search.fast_solver(best.labels))
        elif best is search.tried[-1] and best.strictness < strictest:
            search.add_candidate(_STRICTNESSES[at + 1], search.fast_solver())
        else:
            break
    if not scores[best.strictness] > scores[STRICTNESS] + MIN_SCORE_GAIN:
        best = default
    if solver.name == "fast" and not search.bound:
        return search.with_choice(best.result, best.strictness, _reason(best, scores))
    init = None if search.items.starts_often else best.labels
    result = search.solve_final(best.strictness, _reason(best, scores), init)
    if "torch" in solver.executions and best.result.inside > result.inside:  # all starts are worse
        result = replace(
            best.result, algorithm=solver.name, bound=result.bound, choice=result.choice, costs=result.costs
        )
    return result


def _reason(best: Candidate, scores: dict[float, float]) -> str:
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
