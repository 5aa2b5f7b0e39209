import copy
import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

import r2et
from r2et import audit, metrics, models
from r2et.attacks import BoundaryAttack, ERAttack, MSEAttack, NoiseAttack, WorstCase
from r2et.auditing import certifying
from r2et.auditing.inputs import typical_spread
from r2et.errors import InputError, ModelError
from tests.models_with_answers import Siamese, linear, mlp, normal, quadratic

X = normal(24, 6, seed=3)
Y = (X[:, 0] > 0).long()
RADII = (0.5, 2.0)


@pytest.fixture(scope="module")
def fragile():
    return mlp(seed=1, activation=nn.Tanh)


@pytest.fixture(scope="module")
def report(fragile):
    return audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=30, seed=4)


def no_constants(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


def strict_json(content: object) -> object:
    """Through text and back, without Python's own NaN and Infinity."""
    return json.loads(json.dumps(content), parse_constant=no_constants)


# --- what it says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
def test_nothing_moves_two_linear_classes(k):
    found = audit(linear(), X, Y, k=k, radii=RADII, budget="fast", steps=20)
    expected = (
        f"No attack changed any of the top {k} features of any of the 24 inputs, up to radius 2. "
        "None can, at any radius: it is certified."
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


def test_the_verdict_counts_the_worst_attack(report):
    frame = report.to_frame()
    worst = frame.loc[frame["displaced"].idxmax()]
    text = " ".join(report.verdict().split())
    assert f"norm at most {worst['radius']:g}" in text
    assert f"for {worst['changed']:.0%} of the inputs" in text
    assert f"{worst['displaced']:.1f} of 2 on average ({worst['attack']})" in text


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


def test_a_row_does_not_depend_on_its_chunk(report, fragile):
    chunked = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=30, seed=4, chunk_size=10)
    torch.testing.assert_close(chunked.thickness, report.thickness)
    for name in ("top", "after", "precision", "noise", "labels", "predicted", "in_top", "leaves", "enters"):
        assert torch.equal(getattr(chunked.samples, name), getattr(report.samples, name)), name
    for name in ("distance", "probability", "after_scores", "certified", "moved_from", "moved_by"):
        torch.testing.assert_close(getattr(chunked.samples, name), getattr(report.samples, name))
    for a, b in zip(chunked.attacks, report.attacks, strict=True):
        assert a.precision == b.precision
        assert a.distance == pytest.approx(b.distance)
    assert chunked.faithfulness == pytest.approx(report.faithfulness)
    assert chunked.verdict() == report.verdict()


def test_samples_are_what_the_worst_case_found(report, fragile):
    results = WorstCase(k=2, radius=1.0, budget="fast")(fragile, X, seed=4, radii=RADII)
    samples = report.samples
    assert samples.radii == RADII
    scores = r2et.explainers.Gradient()(fragile, X)
    assert samples.top[:, 0].tolist() == scores.topk(2).indices.tolist()
    for number, result in enumerate(results):
        assert samples.after[number, :, 0].tolist() == result.after.topk(2).indices.tolist()
        torch.testing.assert_close(samples.precision[number], result.precision)
        lost = [
            {*a} - {*b}
            for a, b in zip(samples.top[:, 0].tolist(), samples.after[number, :, 0].tolist(), strict=True)
        ]
        assert samples.leaves[number].tolist() == [sum(i in row for row in lost) for i in range(6)]
    assert samples.in_top.tolist() == [int((samples.top == i).sum()) for i in range(6)]
    delta = results[-1].x - X
    torch.testing.assert_close(samples.moved_by, delta.gather(1, samples.moved.long()))
    assert samples.moved.shape == (24, 6)
    torch.testing.assert_close(samples.certified, r2et.certify(fragile, X, 2).radius)
    assert float((samples.precision[0] - report.certificate.precision_at(RADII[0])).min()) >= -1e-9
    probabilities = fragile(X).softmax(1)
    torch.testing.assert_close(samples.probability, probabilities.amax(1).detach())
    assert samples.predicted.tolist() == probabilities.argmax(1).tolist()


def test_the_most_fragile_rows_come_first(report):
    order = report.samples.most_fragile()
    assert sorted(order.tolist()) == list(range(24))
    lost = (1 - report.samples.precision).sum(0)[order]
    assert (lost[:-1] >= lost[1:] - 1e-9).all()


# --- interrupts -----------------------------------------------------------------------------------------------


class Interrupted(nn.Module):
    """Somebody presses Ctrl-C when a certain row is attacked."""

    def __init__(self, inner: nn.Module, row: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.row = inner, row

    def forward(self, x):
        if torch.is_grad_enabled() and x.shape[0] < 24 and torch.equal(x[0], self.row):
            raise KeyboardInterrupt
        return self.inner(x)


def test_an_interrupt_keeps_the_rows_that_are_done(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 3, "certificate": False}
    found = audit(Interrupted(fragile, X[16]), X, Y, chunk_size=8, **options)
    whole = audit(fragile, X[:16], Y[:16], chunk_size=8, **options)
    assert (found.complete, found.rows, found.requested) == (False, 16, 24)
    assert whole.complete
    assert found.verdict() == whole.verdict() + " Interrupted: only the first 16 of 24 inputs were audited."
    assert found.attacks == whole.attacks
    assert (found.accuracy, found.auc) == (whole.accuracy, whole.auc)
    assert len(found.samples) == len(found.thickness) == 16
    assert found.to_dict()["complete"] is False
    assert "Interrupted" in found.summary()


def test_an_interrupt_of_the_first_chunk_is_one(fragile):
    with pytest.raises(KeyboardInterrupt):
        audit(Interrupted(fragile, X[0]), X, Y, k=2, radii=(0.5,), budget="fast", chunk_size=8)


# --- radii, names, frames ---------------------------------------------------------------------------------------


def test_radii_come_from_the_data_s_scale(fragile):
    scale = X.std(0, correction=0).median()
    found = audit(fragile, 10 * X, Y, k=2, budget="fast", steps=2, certificate=False)
    assert found.settings["scale"] == pytest.approx(10 * float(scale))
    assert list(found.samples.radii) == [float(f"{share * 10 * scale:.2g}") for share in (0.1, 0.3, 1.0)]
    assert "0.1, 0.3 and 1 times the standard deviation of a typical feature" in found.settings["radii reason"]


def test_radii_of_rows_that_do_not_vary(fragile):
    found = audit(fragile, X[:1].repeat(3, 1), Y[:3], k=2, budget="fast", steps=2, certificate=False)
    assert found.samples.radii == (0.1, 0.3, 1.0)
    assert "no feature that may be moved varies" in found.settings["radii reason"]
    strict_json(found.to_dict())


def test_frozen_features_do_not_set_the_scale():
    x = torch.tensor([[0.0, 0.0, 0.0], [2.0, 20.0, 200.0]])
    assert typical_spread(x, r2et.Domain(frozen=[1, 2]), inputs=1) == 1.0
    assert typical_spread(x, r2et.Domain(frozen=[0, 1, 2]), inputs=1) is None


def leaves(content):
    """The values of nested lists and dictionaries, each with the way to it."""
    if not isinstance(content, dict | list | tuple):
        return [((), content)]
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    return [((key, *way), leaf) for key, value in entries for way, leaf in leaves(value)]


def approximately(entry):
    way, leaf = entry
    return way, pytest.approx(leaf, rel=1e-6, abs=1e-9) if isinstance(leaf, float) else leaf


def test_frames_and_arrays(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2, "certificate": False}
    expected = audit(fragile, X, Y, **options)
    frame = pd.DataFrame(
        X.numpy(), columns=["age", "pay", 3, "d", "e", "f"], index=[f"person {i}" for i in range(24)]
    )
    for x, y in (
        (X.numpy(), Y.numpy()),
        (frame, pd.Series(Y.numpy())),
        (frame, pd.Series(Y.numpy() > 0)),
        (frame, Y.numpy().astype(float)),
    ):
        found = audit(fragile, x, y, **options)
        # where an array lies in memory decides how its sums are rounded
        assert list(leaves(found.to_dict())) == [approximately(leaf) for leaf in leaves(expected.to_dict())]
    assert found.feature_names == ("age", "pay", "3", "d", "e", "f")
    assert found.samples.row_names[23] == "person 23"
    assert expected.feature_names[5] == "feature 5"
    assert audit(models.Linear(6, 2), frame, Y.numpy(), **options).thickness.dtype == torch.float32


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": pd.DataFrame({"age": [1.0, 2.0], "job": ["cook", "nurse"]})}, "column 'job' of x is not numeric"),
        ({"x": pd.DataFrame({"age": [1.0, None], "pay": [1.0, 2.0]})}, "NaN"),
        ({"x": [["a", "b"]]}, "x must be numbers"),
        ({"y": ["no", "yes"]}, "labels must be class numbers"),
        ({"y": [0.5, 1.0]}, "fractions"),
        ({"feature_names": ["a"]}, "1 feature names for 2 features"),
        ({"class_names": ["a", "b", "c"]}, "3 class names for 2 classes"),
        ({"layout": r2et.data.ImageLayout((1, 2, 2), (0.0,), (1.0,))}, "the layout has 4 features"),
    ],
)
def test_bad_frames_and_names(changes, message):
    given = {"x": normal(2, 2).numpy(), "y": [0, 1], **changes}
    with pytest.raises(InputError, match=message):
        audit(linear(2), given.pop("x"), given.pop("y"), k=1, radii=(0.5,), **given)


# --- the certificate --------------------------------------------------------------------------------------------


def test_no_certificate_is_a_sentence(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2}
    neurons = audit(fragile, X, Y, explainer=r2et.explainers.Activation(layer="0"), **options)
    assert neurons.certificate is None
    assert neurons.settings["certificate"].startswith(
        "No sound method applies: no sound certificate for Activation"
    )
    assert "no certificate: No sound method applies" in neurons.summary()
    assert neurons.samples.certified.isnan().all()
    assert neurons.feature_names[0] == "neuron 0"
    unwanted = audit(fragile, X, Y, certificate=False, **options)
    assert unwanted.settings["certificate"] == "It was not asked for."


def test_a_proof_that_breaks_does_not_break_the_audit(fragile, monkeypatch):
    def broken(*_, **__):
        raise MemoryError("no room")

    monkeypatch.setattr(certifying, "certify", broken)
    found = audit(fragile, X, Y, k=2, radii=(0.5,), budget="fast", steps=2)
    assert found.settings["certificate"] == "The certificate failed with MemoryError: no room."


@pytest.mark.parametrize("size", [None, 13])
def test_larger_networks_are_certified_in_part_or_not_at_all(fragile, monkeypatch, size):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2, "chunk_size": size}
    neurons = 6 * (8 + 8 + 2)
    monkeypatch.setattr(certifying, "CHEAP", 1)
    monkeypatch.setattr(certifying, "TOTAL", 4 * neurons)
    part = audit(fragile, X, Y, **options)
    assert (~part.samples.certified.isnan()).nonzero().flatten().tolist() == [0, 6, 12, 18]
    assert len(part.certificate.limits) == 4
    assert "for 4 of the 24 rows, evenly spread" in part.settings["certificate"]
    assert part.to_dict()["certificate"]["rows"] == [0, 6, 12, 18]
    monkeypatch.setattr(certifying, "DEAR", neurons - 1)
    none = audit(fragile, X, Y, **options)
    assert none.certificate is None
    assert "too large for a certificate inside an audit (6 features, 18 neurons)" in none.settings["certificate"]


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
    assert "GradientTimesInput" in found.settings["explainer"]


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


# --- how it is handed over ------------------------------------------------------------------------------------


def test_a_frame_has_a_row_for_each_attack_and_radius(report):
    frame = report.to_frame()
    assert frame["attack"].tolist() == ["NoiseAttack", "ERAttack", "MSEAttack", "WorstCase"] * 2
    assert frame["radius"].tolist() == [0.5] * 4 + [2.0] * 4
    assert list(frame.columns) == [
        "attack",
        "radius",
        "precision",
        "displaced",
        "changed",
        "sensitivity",
        "distance",
    ]


def test_a_dict_is_json_and_holds_everything(report):
    found = report.to_dict()
    assert strict_json(found) == found
    assert found["attacks"] == report.to_frame().to_dict("records")
    assert found["thickness"]["values"] == report.thickness.tolist()
    assert found["thickness"]["minimum"] == float(report.thickness.min())
    assert found["thickness"]["mean"] == pytest.approx(float(report.thickness.mean()))
    assert found["verdict"] == report.verdict()
    assert found["settings"]["radii"] == list(RADII)
    assert found["settings"]["steps"] == 30
    assert found["settings"]["seed"] == 4


def test_a_summary_shows_every_attack(report):
    lines = report.summary().splitlines()
    assert " ".join(report.summary().split()).startswith(report.verdict())
    for row in report.attacks:
        (line,) = [line for line in lines if line.split()[:2] == [row.attack, f"{row.radius:g}"]]
        assert f"{100 * row.precision:.1f}" in line
        assert f"{row.displaced:.2f}" in line
        assert f"{row.changed:.1%}" in line
    assert any("24 inputs, 6 features, k = 2" in line for line in lines)
    assert f"accuracy {report.accuracy:.4f}" in report.summary()


def test_a_summary_fits_80_columns(report):
    stable = audit(linear(), X, Y, k=2, radii=RADII, budget="fast", steps=2)
    many = normal(100, 30)
    wide = audit(
        nn.Sequential(nn.Linear(30, 8), nn.ReLU(), nn.Linear(8, 2)).double(),
        many,
        (many[:, 0] > 0).long(),
        k=12,
        radii=(0.125, 12.25),
        budget="fast",
        steps=2,
    )
    lines = [line for found in (report, stable, wide) for line in found.summary().splitlines()]
    assert len(lines) > 20
    assert [line for line in lines if len(line) > 80] == []


# --- corners --------------------------------------------------------------------------------------------------


def test_labels_of_one_class_have_no_auc(fragile):
    found = audit(fragile, X[:6], torch.zeros(6, dtype=torch.long), k=2, radii=(0.5,), budget="fast", steps=2)
    assert math.isnan(found.auc)
    assert found.to_dict()["auc"] is None
    strict_json(found.to_dict())
    assert "AUC nan" in found.summary()


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
        (nn.Linear(6, 1).double(), "one column"),
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


# --- attacks of one's own ---------------------------------------------------------------------------------------


def test_attacks_of_ones_own_stand_beside_noise_and_the_worst_case(fragile):
    given = ["boundary", ERAttack, NearMiss(k=1, radius=9.0, norm="linf", keep="last")]
    found = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=7, seed=4, attacks=given)
    names = ["NoiseAttack", "BoundaryAttack", "ERAttack", "NearMiss", "WorstCase"]
    assert [row.attack for row in found.attacks] == names * 2
    rows = {(row.attack, row.radius): row for row in found.attacks}
    expected = ERAttack(k=2, radius=2.0, steps=7)(fragile, X, seed=4, radii=RADII)[1]
    assert rows["ERAttack", 2.0].precision == pytest.approx(float(expected.precision.mean()))
    for radius in RADII:
        assert rows["WorstCase", radius].precision <= min(rows[name, radius].precision for name in names)
        assert rows["NearMiss", radius].distance <= radius + 1e-6
    assert found.settings["recipe"] == "WorstCase of WorstCase-1, BoundaryAttack, ERAttack, NearMiss"
    assert max(len(line) for line in found.summary().splitlines() if "NearMiss" in line) <= 80
    assert "Quote the attack as WorstCase of WorstCase-1, BoundaryAttack" in page(found)
    assert "MSE" not in page(found).split("All attacks in figures")[1].split("How to cite")[0]


@dataclass(frozen=True, kw_only=True)
class NearMiss(NoiseAttack):
    """A thousandth of the budget along the first feature."""

    def run(self, search):
        step = torch.zeros_like(search.x)
        step[:, 0] = 1e-3 * self.radius
        search.submit(search.evaluate(search.project(search.x + step)))


def page(found: r2et.auditing.Audit) -> str:
    with tempfile.TemporaryDirectory() as folder:
        found.to_html(f"{folder}/page.html")
        return Path(folder, "page.html").read_text()


def test_no_attacks_but_the_two_that_are_always_there(fragile, report):
    found = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", seed=4, attacks=[])
    assert found.attacks == [row for row in report.attacks if row.attack in ("NoiseAttack", "WorstCase")]
    assert found.settings["recipe"] == "WorstCase-1"
    assert "recipe" not in report.settings


def test_two_attacks_of_one_class_have_numbers(fragile):
    given = [BoundaryAttack(k=2, radius=1.0, steps=5, loss=loss) for loss in ("hinge", "soft")]
    found = audit(fragile, X, Y, k=2, radii=(0.5,), budget="fast", attacks=given)
    assert [row.attack for row in found.attacks][1:3] == ["BoundaryAttack 1", "BoundaryAttack 2"]


@pytest.mark.parametrize(
    ("attacks", "message"),
    [
        ("er", "attacks must be a list such as .* got attacks='er'"),
        (5, "got attacks=5"),
        (["err"], "unknown attack 'err': did you mean 'er'"),
        (["worst-case"], "WorstCase is in every audit: leave it out"),
        ([NoiseAttack(k=2, radius=1.0)], "NoiseAttack is in every audit"),
        ([nn.Linear], "must be a complete subclass"),
    ],
)
def test_attacks_that_are_none(fragile, attacks, message):
    with pytest.raises(InputError, match=message):
        audit(fragile, X, Y, k=2, attacks=attacks)
