from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from r2et import models, objectives
from r2et.data import Split
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.explainers import Gradient
from r2et.objectives import (
    R2ET,
    SSR,
    AdversarialTraining,
    CertifiedRadius,
    CrossEntropy,
    DirectThickness,
    EstimatedHessian,
    ExactHessian,
    Regularised,
    Term,
)
from r2et.recipes import METHODS, find_method, method_names, method_title, train_method
from r2et.training import Trainer
from tests.training.toy import problem, same, weights

TRAIN, VALIDATION = (Split(*part) for part in problem(rows=40, features=6))
PAPER = {
    "vanilla",
    "wd",
    "sp",
    "est-h",
    "exact-h",
    "ssr",
    "at",
    "cl",
    "thickness",
    "r2et",
    "r2et-mm",
    "r2et-no-h",
    "r2et-mm-no-h",
}


def vanilla() -> nn.Module:
    return train_method("vanilla", TRAIN, VALIDATION, k=2, epochs=8, lr=0.05).model


def test_every_method_of_the_paper_has_a_name():
    assert PAPER | {"linear", "r2et-sf"} == set(METHODS)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_trains(name):
    start = vanilla() if METHODS[name].retrains else None
    result = train_method(name, TRAIN, VALIDATION, k=2, vanilla=start, epochs=2, batch_size=20, lr=1e-3)
    assert len(result.records) >= 1
    assert result.history.notna().all(axis=None)
    assert result.model(TRAIN.x).shape == (40, 2)
    if start is None:
        assert len(result.records) == 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            untrained = METHODS[name].network(6, 2, METHODS[name].defaults)
        assert not same(weights(result.model), weights(untrained))


#: the objective and the parts of the loss that each method is, in the paper's words
OBJECTIVES = {
    "linear": CrossEntropy(),
    "vanilla": CrossEntropy(),
    "wd": CrossEntropy(),
    "sp": CrossEntropy(),
    "est-h": EstimatedHessian(weight=1.0),
    "exact-h": ExactHessian(weight=0.1),
    "ssr": SSR(weight=0.1),
    "at": AdversarialTraining(k=2, radius=1.0),
    "cl": CertifiedRadius(k=2, weight=1.0, denominator="point"),
    "thickness": DirectThickness(k=2, weight=1.0),
    "r2et": R2ET(k=2, gap=1.0, curvature=1.0),
    "r2et-mm": R2ET(k=2, gap=1.0, curvature=1.0, pairs="boundary"),
    "r2et-no-h": R2ET(k=2, gap=1.0, curvature=0.0),
    "r2et-mm-no-h": R2ET(k=2, gap=1.0, curvature=0.0, pairs="boundary"),
    "r2et-sf": R2ET(k=2, gap=0.1, curvature=0.1, scale_free=True),
}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_method_stands_for_its_objective(name):
    method = METHODS[name]
    given = {key: value for key, value in method.defaults.items() if key != "weight_decay"}
    assert repr(method.objective(2, **given)) == repr(OBJECTIVES[name])


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in sorted(METHODS) for key in sorted(METHODS[name].defaults)]
)
def test_every_setting_of_a_method_has_an_effect(name, key):
    usual = METHODS[name].defaults[key]
    runs = []
    for value in (usual, usual * 3):
        start = None
        if METHODS[name].retrains:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                start = models.MLP(6, 2, activation="softplus")
        seen: list[dict[str, torch.Tensor]] = []

        class Last(Trainer):
            def validate(self, seen=seen):
                seen.append(weights(self.original))
                return super().validate()

        train_method(
            name,
            TRAIN,
            VALIDATION,
            2,
            {key: value},
            vanilla=start,
            epochs=1,
            lr=1e-3,
            batch_size=20,
            trainer=Last,
        )
        runs.append(seen[-1])
    assert not same(*runs), f"{key} of {name} changes nothing"


def test_models_are_those_of_the_method():
    def architecture(name, settings=None):
        return train_method(name, TRAIN, VALIDATION, 2, settings, epochs=1).model.architecture

    assert architecture("linear") == {"name": "linear", "features": 6, "classes": 2}
    paper = {"name": "mlp", "features": 6, "classes": 2, "hidden": [32]}
    assert architecture("vanilla") == {**paper, "activation": "relu"}
    assert architecture("sp", {"beta": 4.0}) == {**paper, "activation": "softplus", "beta": 4.0}
    assert architecture("r2et-sf") == {**paper, "activation": "softplus", "beta": 1.0}


def test_the_number_of_classes_comes_from_all_labels():
    y = torch.arange(40) % 4
    few = Split(TRAIN.x, y.clamp(max=2))
    result = train_method("linear", few, Split(VALIDATION.x, y[: len(VALIDATION)]), 2, epochs=1)
    assert result.model.out_features == 4


def test_a_seed_decides_initialisation_and_training():
    runs = [train_method("vanilla", TRAIN, VALIDATION, 2, seed=seed, epochs=2) for seed in (1, 1, 2)]
    assert same(weights(runs[0].model), weights(runs[1].model))
    assert not same(weights(runs[0].model), weights(runs[2].model))


def test_training_leaves_the_global_random_state_alone():
    torch.manual_seed(4)
    state = torch.get_rng_state()
    train_method("r2et-sf", TRAIN, VALIDATION, 2, epochs=1)
    assert torch.equal(torch.get_rng_state(), state)


def test_weight_decay_reaches_the_optimiser():
    seen = []

    class Watching(Trainer):
        def make_optimiser(self, parameters):
            optimiser = super().make_optimiser(parameters)
            seen.append(optimiser.param_groups[0]["weight_decay"])
            return optimiser

    train_method("wd", TRAIN, VALIDATION, 2, {"weight_decay": 0.25}, epochs=1, trainer=Watching)
    train_method("vanilla", TRAIN, VALIDATION, 2, epochs=1, trainer=Watching)
    assert seen == [0.25, 0.0]


def test_cl_needs_a_model_to_retrain():
    with pytest.raises(InputError, match="'cl' retrains"):
        train_method("cl", TRAIN, VALIDATION, 2, epochs=1)


@pytest.mark.parametrize("name", ["cl", "r2et", "est-h", "at"])
def test_retraining_starts_from_the_vanilla_model_and_leaves_it_alone(name):
    start = vanilla()
    before = weights(start)
    result = train_method(name, TRAIN, VALIDATION, 2, vanilla=start, epochs=2, lr=1e-4)
    assert same(weights(start), before)
    assert result.model is not start
    assert "ranking kept" in result.history
    moved = max(
        float((a - b).abs().max()) for a, b in zip(weights(result.model).values(), before.values(), strict=True)
    )
    assert moved < 0.01, "two small steps away from the vanilla model"


@pytest.mark.parametrize("name", ["linear", "sp"])
def test_a_method_that_is_another_architecture_does_not_retrain(name):
    # App. B.2.5: SP changes the structure of the model, so it is not considered; a linear model even more so
    with pytest.raises(InputError, match=name):
        train_method(name, TRAIN, VALIDATION, 2, vanilla=vanilla(), epochs=1)


def test_unknown_names_get_the_closest_match():
    with pytest.raises(InputError, match=r"unknown method 'r2et-fs'.*did you mean 'r2et-\w+'"):
        train_method("r2et-fs", TRAIN, VALIDATION, 2)
    with pytest.raises(InputError, match=r"'curvatur'.*did you mean 'curvature'.*gap, curvature"):
        train_method("r2et", TRAIN, VALIDATION, 2, {"curvatur": 1.0})
    with pytest.raises(InputError, match=r"hyper-parameter of Vanilla 'gap'"):
        train_method("vanilla", TRAIN, VALIDATION, 2, {"gap": 1.0})


def test_settings_are_the_defaults_with_the_given_ones_in_place():
    method = METHODS["r2et"]
    defaults = {"gap": 1.0, "curvature": 1.0, "difference": 0.01}
    assert method.settings({}) == defaults
    assert method.settings({"gap": 3.0}) == {**defaults, "gap": 3.0}
    assert method.defaults == defaults


def test_options_of_fit_are_passed_on(tmp_path):
    result = train_method("linear", TRAIN, VALIDATION, 2, epochs=3, threshold=2.0, checkpoint=tmp_path)
    assert not result.passed
    assert (tmp_path / "training.json").exists()
    assert len(result.records) == 3


@pytest.mark.parametrize("name", ["vanilla", "wd", "linear", "r2et", "at", "thickness"])
@pytest.mark.parametrize("k", [0, 6, 7])
def test_k_outside_of_the_features(name, k):
    with pytest.raises(InputError, match=f"k={k}"):
        train_method(name, TRAIN, VALIDATION, k, epochs=1)


# --- objectives of one's own ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Small(Regularised):
    weight: float = 0.0

    def terms(self, batch):
        return {"size": Term(batch.attributions.square().mean(), self.weight)}


@pytest.fixture
def small():
    objectives.OBJECTIVES.register("small", title="Small", defaults={"weight": 2.0}, grid={"weight": (1.0, 3.0)})(
        Small
    )


@pytest.mark.usefixtures("small")
def test_a_registered_objective_is_a_method_on_the_plain_network():
    method = find_method("small")
    assert (method.title, method.defaults) == ("Small", {"weight": 2.0})
    assert method.grids == {"paper": {"weight": (1.0, 3.0)}, "cpu": {"weight": (1.0, 3.0)}}
    assert "small" in method_names()
    assert method_title("small") == "Small"
    explainer = Gradient(inputs=1)
    objective = method.objective_for(2, method.settings({}), explainer)
    # of gradients at one point it takes its own score: both rank alike
    assert objective == Small(weight=2.0, explainer=replace(explainer, score="probability"))
    trained = train_method("small", TRAIN, VALIDATION, 2, {"weight": 1.0}, epochs=3)
    alike = train_method("vanilla", TRAIN, VALIDATION, 2, epochs=3, objective=Small(weight=1.0))
    assert same(weights(trained.model), weights(alike.model))
    assert not same(weights(trained.model), weights(train_method("vanilla", TRAIN, VALIDATION, 2, epochs=3).model))


@pytest.mark.usefixtures("small")
def test_another_objective_keeps_the_network_and_the_optimiser():
    method = find_method("r2et-sf", "small")
    assert method.activation == "softplus"
    assert method.defaults == {"beta": 1.0, "weight": 2.0}
    assert find_method("wd", Small).defaults == {"weight_decay": 5e-4, "weight": 2.0}
    model = train_method("r2et-sf", TRAIN, VALIDATION, 2, {"beta": 3.0}, epochs=1, objective="small").model
    assert (model.architecture["activation"], model.architecture["beta"]) == ("softplus", 3.0)


def test_an_object_is_used_as_it_is():
    own = R2ET(k=3, gap=0.7, pairs="boundary", boundary_pairs=1)
    method = find_method("vanilla", own)
    assert method.objective_for(2, {}, Gradient(), boundary_pairs=4) is own
    assert method.title == "R2ET"


def test_a_class_that_nobody_registered():
    path = f"{__name__}:Small"
    assert find_method(path).title == method_title(path) == "Small"
    assert find_method(path).defaults == {}
    assert train_method(path, TRAIN, VALIDATION, 2, epochs=1).stopped == "epochs"


def test_the_title_of_a_name_in_a_record_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "own_bomb.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    assert method_title("own_bomb:Bang") == "Bang"


@pytest.mark.parametrize("objective", ["r2te", 5, nn.Linear])
def test_an_objective_that_is_none(objective):
    with pytest.raises(InputError, match="objective"):
        find_method("vanilla", objective)


@pytest.mark.parametrize("method", ["r2et-sf", "at"])
def test_a_method_trains_for_what_may_move_where_a_domain_is_handed_over(method):
    seen = []

    class Watching(Trainer):
        def run(self, fabric):
            seen.append(self.objective)
            return super().run(fabric)

    domain, options = Domain(frozen=[0, 1]), {"epochs": 1, "trainer": Watching}
    train_method(method, TRAIN, VALIDATION, 2, **options)
    train_method(method, TRAIN, VALIDATION, 2, domain=domain, threat="tangent", **options)
    assert [(one.domain, one.threat) for one in seen] == [(None, None), (domain, "tangent")]
    with pytest.raises(InputError, match="domain="):
        train_method(method, TRAIN, VALIDATION, 2, threat="domain", **options)
