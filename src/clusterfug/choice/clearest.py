"""threshold="auto": the usual strictness, unless another one gives clearly better clusters."""

from dataclasses import replace

from clusterfug.choice.search import Candidate, Search
from clusterfug.options import ON_GPU
from clusterfug.result import Clustering
from clusterfug.strength import STRICTNESS

_LADDER = (0.22, 0.36, STRICTNESS, 1.0, 1.7, 2.8)
_TRIES = 5
#: By how much the score of another strictness must be better than the usual one's.
CLEARLY = 0.06
_CONTRAST = 1.5  # where neighbours differ so much, clusters may be smaller than neighbourhoods
_SEPARATED = 0.1  # silhouette of clusters that a person would see


def clearest(search: Search) -> Clustering:
    """Try candidates outwards from the usual one while the best is at an end; then solve at the best.

    A more lenient candidate starts from the labels of the one before, since joining is what is left to do.
    A stricter one starts anew, and is tried only where clusters may be smaller than neighbourhoods.
    """
    task = search.task
    usual = search.attempt(STRICTNESS, init=task.init)
    search.attempt(_LADDER[_LADDER.index(STRICTNESS) - 1], init=usual.labels)
    strictest = STRICTNESS
    if search.items.around.contrast > _CONTRAST:
        strictest = _LADDER[-1]
        search.attempt(_LADDER[_LADDER.index(STRICTNESS) + 1])
    while True:
        scores = search.scores()
        best = max(search.tried, key=lambda candidate: scores[candidate.strictness])
        step = _LADDER.index(best.strictness)
        if len(scores) == _TRIES:
            break
        if best is search.tried[0] and step > 0:
            search.attempt(_LADDER[step - 1], init=best.labels)
        elif best is search.tried[-1] and best.strictness < strictest:
            search.attempt(_LADDER[step + 1])
        else:
            break
    if not scores[best.strictness] > scores[STRICTNESS] + CLEARLY:
        best = usual
    if task.algorithm == "fast" and not task.bound:
        return search.chosen(best.result, best.strictness, _why(best, scores))
    init = None if search.items.starts_often else best.labels
    result = search.final(best.strictness, _why(best, scores), init)
    if task.algorithm in ON_GPU and best.result.inside > result.inside:  # all starts are worse
        result = replace(best.result, algorithm=task.algorithm, bound=result.bound, choice=result.choice)
    return result


def _why(best: Candidate, scores: dict[float, float]) -> str:
    if best.strictness == STRICTNESS:
        reason = f"strictness {STRICTNESS:g}, the usual one: of {len(scores)} tried none is clearly better"
    else:
        reason = (
            f"strictness {best.strictness:.2g}, the best of {len(scores)} tried: it scores "
            f"{scores[best.strictness]:.2f}, the usual {STRICTNESS:g} scores {scores[STRICTNESS]:.2f}"
        )
    if best.silhouette < _SEPARATED and best.n_clusters > 1:
        reason += f"; clusters are not well separated (silhouette {best.silhouette:.2f})"
    return reason
