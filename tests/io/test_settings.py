"""Settings of labels as JSON."""

import json

import numpy as np
import pytest

from clusterfug import dense_multicut, multicut
from clusterfug.io.settings import LabelSettings, settings_of

X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])


@pytest.mark.parametrize(
    "costs", [{}, {"threshold": 0.3}, {"alpha": 0.5}, {"strictness": 0.7}, {"n_clusters": 2}], ids=str
)
def test_the_cost_model_survives(costs):
    result = dense_multicut(X, **costs)
    settings = LabelSettings.from_json(settings_of(result).to_json())
    assert settings.costs().settings() == result.costs.settings()
    assert settings.objective == result.objective


def test_what_is_missing_is_named():
    per_item = settings_of(dense_multicut(X, alpha=np.full(4, 0.5)))
    with pytest.raises(ValueError, match="one alpha per item, not stored: give --alpha"):
        LabelSettings.from_json(per_item.to_json()).costs()
    graph = settings_of(multicut([[0, 1]], [1.0]))
    assert (graph.metric, graph.center) == (None, None)
    with pytest.raises(ValueError, match="solved on a graph"):
        LabelSettings.from_json(graph.to_json()).costs()


def test_costs_that_are_not_selected_are_no_settings():
    settings = json.loads(settings_of(dense_multicut(X)).to_json())
    settings["cost_model"] = {"name": "auto", "n_neighbors": None}
    with pytest.raises(ValueError, match="auto costs are not selected yet"):
        LabelSettings.from_json(json.dumps(settings)).costs()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "1" + 400 * "0"])
@pytest.mark.parametrize("name", ["objective", "inside", "strictness"])
def test_numbers_that_are_not_finite_are_no_settings(name, number):
    settings = json.loads(settings_of(dense_multicut(X)).to_json())
    (settings["cost_model"] if name == "strictness" else settings)[name] = 0.125
    described = json.dumps(settings).replace("0.125", number)
    with pytest.raises(ValueError, match=rf"^{name} is (nan|inf|1000000)"):
        LabelSettings.from_json(described)


@pytest.mark.parametrize("parameters", [{"name": "local", "zzz": 1}, {"name": "threshold"}])
def test_other_parameters_of_a_cost_model_are_said_in_a_sentence(parameters):
    settings = json.loads(settings_of(dense_multicut(X)).to_json()) | {"cost_model": parameters}
    message = rf"cannot be read \({parameters['name']} has other parameters\): give --threshold"
    with pytest.raises(ValueError, match=message):
        LabelSettings.from_json(json.dumps(settings)).costs()


def test_an_option_does_not_hide_that_the_cost_model_has_other_parameters():
    settings = json.loads(settings_of(dense_multicut(X)).to_json())
    settings["cost_model"] = {"name": "local", "strictness": 0.5, "zzz": 1}
    with pytest.raises(ValueError, match="local has other parameters"):
        LabelSettings.from_json(json.dumps(settings)).costs(strictness=0.6)


def test_links_are_hard_or_soft_and_absent_in_older_settings():
    for weight, links in ((None, "hard"), (0.5, "soft")):
        result = dense_multicut(X, 0.3, must_link=[[0, 1]], link_weight=weight)
        assert LabelSettings.from_json(settings_of(result).to_json()).links == links
    settings = json.loads(settings_of(dense_multicut(X, 0.3)).to_json())
    assert settings.pop("links") is None
    assert LabelSettings.from_json(json.dumps(settings)).links is None
    for links, message in (("maybe", "unknown links 'maybe': choose one of hard, soft"), (1, "links is 1")):
        with pytest.raises(ValueError, match=message):
            LabelSettings.from_json(json.dumps(settings | {"links": links}))
