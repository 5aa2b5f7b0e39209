import copy
import math

import pytest
import torch
from torch import nn

import r2et
from r2et import audit, metrics, models
from r2et.attacks import ERAttack, MSEAttack, NoiseAttack, WorstCase
from r2et.errors import InputError, ModelError
from tests.auditing.toys import RADII, X, Y, strict_json
from tests.models_with_answers import Siamese, linear, mlp, normal, quadratic


@pytest.mark.parametrize("k", [1, 3])
def test_nothing_moves_two_linear_classes(k):
    found = audit(linear(), X, Y, k=k, radii=RADII, budget="fast", steps=20)
    expected = (
        f"P@{k} at radius 2: [100.0, 100.0] %, proven and attacked. It is one list for everybody (two share "
        f"100 %): it says nothing about a single input. No attack changed any of the top {k} features of any of "
        "the 24 inputs, up to radius 2. None can, at any radius: it is certified."
    )
    assert " ".join(found.verdict().split()) == expected
    assert [(row.precision, row.displaced, row.changed) for row in found.attacks] == [(1.0, 0.0, 0.0)] * 8
    assert float(found.thickness.min()) == 1.0


def test_three_linear_classes_can_be_moved():
    model = linear(n=6, classes=3, seed=5)
    y = model(X).argmax(1)
    found = audit(model, X, y, k=2, radii=(3.0,), budget="fast", steps=50)
    assert "No attack" not in found.verdict()
    assert found.accuracy == 1.0


def test_attack_rows_are_what_the_attacks_give(report, fragile):
    expected = []
    attacks = [
        NoiseAttack(k=2, radius=1.0),
        ERAttack(k=2, radius=1.0, steps=30),
        MSEAttack(k=2, radius=1.0, steps=30),
        WorstCase(k=2, radius=1.0, budget="fast"),
    ]
    results = [attack(fragile, X, seed=4, radii=RADII) for attack in attacks]
    for number, radius in enumerate(RADII):
        for attack, found in zip(attacks, results, strict=True):
            result = found[number]
            tops = [s.topk(2).indices.tolist() for s in (result.before, result.after)]
            lost = [len({*before} - {*after}) for before, after in zip(*tops, strict=True)]
            expected.append(
                {
                    "attack": type(attack).__name__,
                    "radius": radius,
                    "precision": 1 - sum(lost) / 48,
                    "displaced": sum(lost) / 24,
                    "changed": sum(n > 0 for n in lost) / 24,
                    "sensitivity": 0.0,
                    "distance": float((result.x - X).norm(dim=1).mean()),
                }
            )
    assert max(row["displaced"] for row in expected) > 0.2, "the model is fragile, so that the test can fail"
    assert report.to_frame().to_dict("records") == [pytest.approx(row) for row in expected]


def test_the_figures_beside_the_attacks(report, fragile):
    predicted = fragile(X).argmax(1)
    assert report.accuracy == pytest.approx(float((predicted == Y).double().mean()))
    assert report.auc == metrics.auc(fragile, X, Y)
    assert (report.rows, report.features, report.k) == (24, 6, 2)
    assert report.thickness.shape == (24,)
    expected = r2et.thickness(
        fragile,
        X,
        2,
        neighbours=r2et.stability.GaussianNeighbours(min(RADII) / 6**0.5),
        samples=400,
        generator=torch.Generator().manual_seed(4),
    )
    # other draws of the same distribution: a row's draws are its own
    assert float((report.thickness - expected).abs().max()) < 0.15
    assert float(report.thickness.mean()) == pytest.approx(float(expected.mean()), abs=0.02)
    assert report.faithfulness == pytest.approx(metrics.faithfulness(fragile, X))
    evaluated = copy.deepcopy(fragile).eval()
    assert report.validation.to_dict() == r2et.validate.check(evaluated, X, k=2).to_dict()


def test_radii_are_reported_in_order(fragile):
    found = audit(fragile, X[:6], Y[:6], k=2, radii=(1.0, 0.2), budget="fast", steps=3)
    assert found.to_frame()["radius"].tolist() == [0.2] * 4 + [1.0] * 4


def test_a_domain_is_respected(fragile):
    frozen = audit(
        fragile, X, Y, k=2, radii=(2.0,), budget="fast", steps=20, domain=r2et.Domain(frozen=list(range(6)))
    )
    assert [row.distance for row in frozen.attacks] == [0.0] * 4
    assert "No attack" in frozen.verdict()


def test_another_explainer_is_the_one_attacked(fragile):
    explainer = r2et.explainers.GradientTimesInput()
    found = audit(fragile, X, Y, k=2, radii=(0.5,), budget="fast", steps=10, explainer=explainer)
    result = ERAttack(k=2, radius=0.5, steps=10, explainer=explainer)(fragile, X, seed=0)
    assert found.attacks[1].precision == pytest.approx(float(result.precision.mean()))
    assert "GradientTimesInput" in found.settings.explainer


def test_pairs_of_inputs():
    x = normal(8, 2, 5)
    found = audit(
        Siamese(),
        x,
        torch.arange(8) % 2,
        k=2,
        radii=(0.5,),
        budget="fast",
        steps=5,
        explainer=r2et.explainers.Gradient(inputs=2),
    )
    assert found.features == 5
    assert len(found.thickness) == 8


def test_labels_of_one_class_have_no_auc(fragile):
    found = audit(fragile, X[:6], torch.zeros(6, dtype=torch.long), k=2, radii=(0.5,), budget="fast", steps=2)
    assert math.isnan(found.auc)
    assert found.to_dict()["auc"] is None
    strict_json(found.to_dict())
    assert "AUC unknown (the rows are of one class)" in found.summary()


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(training):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    model.train(training)
    model[1].eval()  # somebody froze its statistics
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [module.training for module in model.modules()]
    first = audit(model, X, Y, k=2, radii=(0.5,), budget="fast", steps=3)
    assert [module.training for module in model.modules()] == flags
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    again = audit(model, X, Y, k=2, radii=(0.5,), budget="fast", steps=3)
    assert again.to_dict() == first.to_dict(), "dropout is off"


def test_flags_come_back_after_an_error():
    model = nn.Sequential(nn.Linear(6, 2), nn.Dropout(0.5)).double().train()
    with pytest.raises(InputError):
        audit(model, X, Y, k=6, radii=(0.5,))
    assert model.training
    assert model[1].training


BAD = {
    "nan": (
        {"x": X.index_put((torch.tensor([2]), torch.tensor([1])), torch.tensor(float("nan")).double())},
        "nan",
    ),
    "integer": ({"x": X.long()}, "int64"),
    "empty": ({"x": X[:0], "y": Y[:0]}, "empty"),
    "one sample": ({"x": X[0], "y": Y[:1]}, r"\(6,\)"),
    "too few labels": ({"y": Y[:5]}, "5 labels for 24 rows"),
    "float labels": ({"y": Y.double()}, "float64"),
    "label out of range": ({"y": Y + 1}, "label 2"),
    "all labels out of range": ({"y": torch.full_like(Y, 7)}, "label 7"),
    "all labels negative": ({"y": torch.full_like(Y, -1)}, "label -1"),
    "k = 0": ({"k": 0}, "k=0"),
    "k = n": ({"k": 6}, "k=6"),
    "k > n": ({"k": 60}, "k=60"),
    "k not whole": ({"k": 2.5}, "2.5"),
    "no radius": ({"radii": ()}, "radii is empty"),
    "radius 0": ({"radii": (0.5, 0.0)}, "radius=0.0"),
    "radius negative": ({"radii": (-1.0,)}, "radius=-1.0"),
    "radius nan": ({"radii": (float("nan"),)}, "radius=nan"),
    "steps": ({"steps": 0}, "steps.*0"),
    "chunk size": ({"chunk_size": 0}, "chunk_size.*0"),
    "domain": ({"domain": r2et.Domain(frozen=[17])}, "17"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    changes, message = BAD[name]
    given = {"x": X, "y": Y, "k": 2, "radii": (0.5,), "steps": 2, **changes}
    with pytest.raises(InputError, match=message):
        audit(linear(), given.pop("x"), given.pop("y"), **given)


class Detached(nn.Module):
    def forward(self, x):
        return x.detach()[:, :2]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(mlp(), nn.Softmax(dim=1)), "softmax"),
        (nn.Linear(6, 1).double(), "one output.*0 and 1 alone.*torch.cat"),
        (Detached(), "no gradient"),
    ],
    ids=["probabilities", "one logit", "no gradient"],
)
def test_bad_models(model, message):
    with pytest.raises(ModelError, match=message):
        audit(model, X, Y, k=2, radii=(0.5,), budget="fast", steps=2)


def test_float32_models_and_doubles_agree_on_the_verdict():
    torch.manual_seed(0)
    model = models.Linear(6, 2)
    single = audit(model, X.float(), Y, k=2, radii=(0.5,), budget="fast", steps=3)
    double = audit(model.double(), X, Y, k=2, radii=(0.5,), budget="fast", steps=3)
    assert single.verdict() == double.verdict()


def test_a_quadratic_score_is_moved_where_its_gradient_says():
    # a gradient A x + b that changes its order at once when x moves along the difference of two features
    model = quadratic(n=5, seed=2, curvature=3.0, c=50.0)
    x = normal(10, 5) * 0.1
    found = audit(model, x, torch.ones(10, dtype=torch.long), k=2, radii=(1.0,), budget="fast", steps=100)
    assert found.accuracy == 1.0
    assert found.attacks[0].changed > 0.5
    for name in ("A", "b"):
        assert getattr(model, name).grad is None
