"""The hunt of benchmarks/soundness.py: no witness against ugly networks, and every wrong certificate is caught."""

import itertools
import json

import pytest
import torch
from torch import nn

from benchmarks import soundness
from benchmarks.attackers import Aims, attacked, judge_reads, without_doubt
from benchmarks.soundness import Way, certified, examined, malformed, results, run, tied_windows
from benchmarks.ugly import KINDS, TRAITS, Case, drawn
from benchmarks.witnesses import Ground, Smallest
from benchmarks.wrong import WRONG, method_of
from r2et.certificates import Certificate
from r2et.explainers import Gradient
from tests.certificates.test_unsound import toward
from tests.covering import covering
from tests.models_with_answers import mlp, normal

SHALLOW = "one hidden layer, as the judge reads it"


def case_of(model, x, k, **options):
    asked = {"explainer": Gradient(), "domain": None, "threat": "paper", "target": None, **options}
    return Case(1, {"network": "given"}, model, x, k, **asked)


@pytest.mark.parametrize(("kind", "trait"), covering(itertools.product(KINDS, TRAITS), together=1))
def test_no_witness_stands_against_a_certificate_of_an_ugly_network(kind, trait):
    seed = 8 * list(KINDS).index(kind) + 1  # no multiple of 8: those have controls
    record = examined(drawn(seed, 3, kind, trait), worst=False)
    assert record["violations"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 40, 3))
def test_worst_case_finds_none_either(seed):
    assert examined(drawn(seed, 6))["violations"] == []


def three_neurons():
    return case_of(mlp(4, hidden=3, seed=1, activation=nn.Softplus).double(), normal(12, 4, seed=2), 2)


def one_neuron():
    """Its gap closes on the side where the slope grows: with fine steps the left ends are wrong by little."""
    model, x, _ = toward(-3.0, -1.0)
    return case_of(model, x, 1, explainer=Gradient(reduce="signed"))


def two_layers():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    for number, parameter in enumerate(model.parameters()):
        parameter.data = normal(*parameter.shape, seed=10 + number)
    return case_of(model.requires_grad_(requires_grad=False), normal(12, 4, seed=2), 2)


#: networks on which a wrong certificate is larger than the truth, where it is not so on the usual one
CAUGHT = {
    "enclosures at the left ends of steps": one_neuron,
    "no derivative of the softmax": lambda: drawn(0, 4, SHALLOW, "plain"),
    "parabolas on half the ball in the dual bound": lambda: case_of(
        mlp(4, hidden=16, seed=1, activation=nn.Tanh).double(), normal(12, 4, seed=2), 2
    ),
    "curvatures that stay in the quadratic bound": two_layers,
}


@pytest.mark.parametrize("name", [name for name in WRONG if "tie" not in name])
def test_a_wrong_certificate_is_caught(name):
    case = CAUGHT.get(name, three_neurons)()
    method = method_of(name)
    way = Way("integral" if method == "auto" else method)
    right = certified(case, way)
    with WRONG[name]():
        wrong = certified(case, way)
    smallest, _ = attacked(Ground.of(case), [right, wrong], 0, worst=False)
    assert not smallest.against(right).any()
    assert smallest.against(wrong).any()


def test_logits_that_are_rounding_itself_are_read_as_they_are():
    """The effects of a column are differences of log-odds, and these of ten equal logits are log 9 and not 0."""
    case = drawn(496, 4)
    assert case.labels["explanation"] == "ColumnEffects"
    assert case.labels["classes"] == "10"
    assert certified(case, Way("auto")).limits.shape == (4, case.k)


def test_a_certificate_that_is_one_percent_too_large_is_caught():
    record = examined(three_neurons(), worst=False)
    larger, caught = record["controls"]["1% too large"]
    assert larger >= caught > 0
    assert 0.99 < record["largest"] <= 1


def test_half_slopes_at_ties_of_windows_are_caught(monkeypatch):
    monkeypatch.setattr(soundness, "KNOWN_TIES", (8,))
    monkeypatch.setattr(soundness, "ROWS", 6)
    larger, caught = tied_windows()
    assert larger >= caught > 0


def test_one_point_speaks_about_every_position():
    case = three_neurons()
    smallest = Smallest(Ground.of(case))
    point = case.x[:1] + 1.0
    smallest.take(point, torch.tensor([0]), torch.tensor([2.0]).double(), torch.tensor([2]))
    smallest.take(point + 1, torch.tensor([0]), torch.tensor([3.0]).double(), torch.tensor([2]))
    smallest.take(point + 2, torch.tensor([0]), torch.tensor([1.0]).double(), torch.tensor([1]))
    assert smallest.norms[0].tolist() == [1.0, 2.0]
    limits = torch.full((12, 2), 0.5, dtype=torch.float64)
    limits[0] = torch.tensor([1.0, 2.5])
    broken = smallest.against(Certificate(limits, "deterministic", "a gradient"))
    assert broken.nonzero().tolist() == [[0, 1]], "a claim is about norms below it: 1.0 holds, 2.5 does not"


def test_a_witness_is_brought_to_where_the_list_changes():
    """Of the score x1^2 / 2 + 2 x2 the slopes are x1 and 2: the list of one changes at x1 = 2."""

    class Parabola(nn.Module):
        def forward(self, x):
            score = x[:, 0].square() / 2 + 2 * x[:, 1]
            return torch.stack([torch.zeros_like(score), score], 1)

    case = case_of(Parabola(), torch.tensor([[1.0, 5.0]]).double(), 1, target=torch.tensor([1]))
    smallest = Smallest(Ground.of(case))
    smallest.add(case.x + torch.tensor([[4.0, 0.0]]), torch.tensor([0]))
    assert float(smallest.norms[0, 0]) == 4
    smallest.contract()
    assert float(smallest.norms[0, 0]) == pytest.approx(1.0, abs=1e-5)


def test_another_class_is_a_witness_where_the_prediction_is_certified():
    case = three_neurons()
    smallest = Smallest(Ground.of(case))
    smallest.changed[3] = 0.1
    limits, held = torch.full((12, 2), 0.2, dtype=torch.float64), torch.full((12,), 0.2, dtype=torch.float64)
    certificate = Certificate(limits, "deterministic", "a gradient", details={"prediction": held})
    assert smallest.against(certificate).any(1).nonzero().tolist() == [[3]]
    assert not smallest.against(Certificate(limits, "deterministic", "a gradient")).any()


def test_limits_that_are_none_are_violations():
    case = three_neurons()
    ground = Ground.of(case)
    top = ground.top.nonzero()[:, 1].reshape(12, 2)
    limits = torch.ones(12, 2, dtype=torch.float64)
    limits[0, 1], limits[1, 0], limits[2, 0] = 0.5, torch.nan, -1.0
    assert (
        malformed(Certificate(limits, "dual", "a gradient", top=top), ground).tolist() == [True] * 3 + [False] * 9
    )
    other = (~ground.top).nonzero()[:, 1].reshape(12, 2)
    assert malformed(Certificate(limits, "dual", "a gradient", top=other), ground).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_without_doubt_has_the_same_explanation(kind):
    ground = Ground.of(drawn(3, 4, kind, "plain"))
    model = without_doubt(ground, 1)
    far = ground.x + 3 * ground.allowed(normal(*ground.x.shape, seed=1))
    target = torch.ones(4, dtype=torch.int64)
    assert (model(far).argmax(1) == 1).all()
    before, after = (ground.explainer(each, far, target) for each in (ground.model, model))
    assert torch.allclose(before, after, rtol=1e-6, atol=1e-6 * float(before.abs().max()))


def test_the_draws_are_as_ugly_as_they_claim():
    cases = [drawn(seed, 2) for seed in range(400)]
    seen = {heading: {case.labels[heading] for case in cases} for heading in cases[0].labels}
    assert seen["network"] == set(KINDS)
    assert seen["trait"] == set(TRAITS)
    assert seen["classes"] >= {"2", "10"}
    assert seen["threat"] == {"paper", "tangent", "domain"}
    assert seen["score"] == {"log-odds", "logit", "margin", "probability"}
    assert seen["explanation"] == {"Gradient", "GradientTimesInput", "SmoothGrad", "ColumnEffects"}
    assert seen["number type"] == {"float32", "float64"}
    assert seen["list"] == {"one", "all but one", "some", "one of two"}
    assert sum(judge_reads(Ground.of(case)) for case in cases[:60]) > 5
    widths = [
        len(layer.weight) for case in cases for layer in case.model.modules() if isinstance(layer, nn.Linear)
    ]
    assert max(widths) > 56


def test_the_expensive_attacks_look_at_every_row_and_at_other_positions():
    limits = torch.arange(1.0, 61.0).reshape(20, 3).double()
    some = Aims.of(limits).some(30, seed=0)
    assert sorted(some.rows[some.places == 0].tolist()) == list(range(20))
    assert len(some.rows) == 30


def test_a_run_goes_on_where_it_was_and_adds_up(tmp_path, monkeypatch):
    calls = []

    def record(case, **options):
        calls.append(case.seed)
        return {
            "seed": case.seed,
            "rows": 2,
            "labels": {"network": case.labels["network"]},
            "ways": ["auto, search"],
            "bounds": ["dual"],
            "attacked": {"WorstCase-2": 2},
            "certified": 1,
            "infinite": 0,
            "readable": case.seed % 2 == 0,
            "claims": {"0": 2, "1": 1},
            "witnessed": 1,
            "largest": 0.5,
            "violations": [],
            "controls": {"1% too large": (2, 1)},
        }

    monkeypatch.setattr(soundness, "examined", record)
    first = run(15, 2, 0, tmp_path, 1)
    assert calls == list(range(15))
    (tmp_path / f"v{soundness.VERSION}-2-10-15.jsonl").unlink()
    assert run(15, 2, 0, tmp_path, 1) == first
    assert calls[15:] == list(range(10, 15))
    found = results(first, {})
    assert (found["cases"], found["networks"], found["that the judge can read"]) == (30, 15, 16)
    assert found["claims by displaced features"] == {"0": 30, "1": 15}
    assert found["controls"] == {"1% too large": {"cases": 30, "caught": 15}}
    json.dumps(found)
