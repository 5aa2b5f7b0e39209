"""Studies against closed forms, scipy and brute force."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et.data import load
from r2et.domain import Domain
from r2et.explainers import Gradient
from r2et.models import MLP
from r2et.recipes import METHODS, find_preset
from r2et_bench.cells import Cell
from r2et_bench.figures import pareto
from r2et_bench.studied import STUDIES, StudiedModel
from r2et_bench.studies.correlation import _correlation, hessian_norm
from r2et_bench.studies.standard import magnitude


@pytest.fixture(scope="module")
def studied():
    data = load("breast-cancer")
    torch.manual_seed(0)
    model = MLP(30, 2, activation="softplus", beta=1.0).eval()
    cell = Cell("breast-cancer", "r2et-sf", METHODS["r2et-sf"].settings({}))
    return StudiedModel(model, data, find_preset(data, "cpu"), cell, vanilla=model)


def test_the_hessian_norm_is_the_frobenius_norm():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    target = model(x).argmax(1)
    exact = torch.stack(
        [
            torch.autograd.functional.hessian(lambda point, c=c: model(point[None]).softmax(1)[0, c], row).norm()
            for row, c in zip(x, target, strict=True)
        ]
    )
    found = hessian_norm(model, x, Gradient(), samples=4000)
    assert torch.allclose(found, exact, rtol=0.1)


def test_a_linear_score_has_no_curvature_but_its_probability_has():
    model = nn.Linear(3, 2)
    assert (hessian_norm(model, torch.randn(5, 3), Gradient()) > 0).all()


def test_correlations_are_what_their_formulas_say():
    generator = torch.Generator().manual_seed(0)
    a = torch.randint(0, 6, (50,), generator=generator).double()
    b = a + torch.randn(50, generator=generator).double()

    def ranks(values):
        """Equal values share the middle of their ranks."""
        return (values[:, None] > values).sum(1) + (values[:, None] == values).sum(1) / 2

    assert _correlation("pearson", a, b) == pytest.approx(float(torch.corrcoef(torch.stack([a, b]))[0, 1]))
    ranked = torch.stack([ranks(a), ranks(b)]).double()
    assert _correlation("spearman", a, b) == pytest.approx(float(torch.corrcoef(ranked)[0, 1]))
    for kind in ("pearson", "spearman"):
        assert _correlation(kind, torch.ones(5).double(), b[:5]) is None


def test_the_front_is_what_nobody_beats():
    generator = torch.Generator().manual_seed(1)
    points = [tuple(point) for point in torch.rand(40, 2, generator=generator).tolist()]
    beaten = {p for p in points if any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in points)}
    assert set(pareto(points)) == set(points) - beaten


def test_magnitudes_fall_from_one(studied):
    values = magnitude(studied, rows=10, points=100).values
    assert values["rank"] == list(range(1, 31))
    assert values["magnitude"][0] == 1
    assert values["magnitude"] == sorted(values["magnitude"], reverse=True)
    few = magnitude(studied, rows=10, points=5).values["rank"]
    assert (few[0], few[-1]) == (1, 30)
    assert len(few) <= 5


def test_a_model_attacked_for_longer_is_no_more_stable(studied):
    attacks = STUDIES.find("attacks").thing
    short, long = (attacks(studied, rows=20, steps=steps).values["ERAttack"] for steps in (2, 60))
    worst = STUDIES.find("worst").thing(studied, rows=20, budget="fast").values["precision"]
    assert worst <= long <= short <= 1


def test_what_is_proven_is_below_what_is_attacked(studied):
    certified = STUDIES.find("certified").thing(studied, rows=20).values
    worst = STUDIES.find("worst").thing(studied, rows=20, budget="fast").values["precision"]
    assert certified["applies"]
    assert certified["precision"] <= worst


def test_a_plan_says_under_which_threat_a_study_runs(studied):
    # nothing of this domain can move
    still = replace(studied, data=replace(studied.data, domain=Domain(frozen=range(30))))
    settings = {
        "attacks": {"steps": 20},
        "worst": {"budget": "fast"},
        "certified": {},
        "thickness": {"samples": 4},
    }
    for name, options in settings.items():
        study = STUDIES.find(name).thing
        figure = {"attacks": "ERAttack", "thickness": "thickness"}.get(name, "precision")
        paper, domain = (study(still, rows=12, **options, threat=threat).values for threat in ("paper", "domain"))
        assert study(still, rows=12, **options).values == paper  # records that say nothing are of the paper's
        assert paper[figure] < domain[figure] == 1, name
        assert domain.get("threat", "domain") == "domain"


def test_regularisers_name_both_terms_of_three_models(studied):
    values = STUDIES.find("regularisers").thing(studied, rows=20).values
    assert values.keys() == {"untrained", "vanilla", "trained"}
    assert values["trained"].keys() == {"gap", "curvature"}
    assert values["vanilla"] == values["trained"]  # it is the same model here


class Stepped(nn.Module):
    """Linear on each side of a step of the first feature, with other weights: no slope tells that it is there."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weights = nn.Parameter(torch.rand(2, 30, generator=generator))

    def forward(self, x):
        weights = self.weights[(x[:, 0] > 0.05).long().detach()]
        score = 5 + (weights * x).sum(1)
        return torch.stack([-score, score], 1)


def test_a_model_that_hides_from_slopes_is_found_out(studied):
    hiding = StudiedModel(Stepped(), studied.data, studied.preset, studied.cell)
    assert STUDIES.find("attacks").thing(hiding, rows=6, steps=20, mse=False).values["ERAttack"] == 1
    assert (
        STUDIES.find("masking").thing(hiding, rows=6, directions=300, budget="fast").values["random directions"]
        < 1
    )
