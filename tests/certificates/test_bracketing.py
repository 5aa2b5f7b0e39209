"""`bracket` against models of which the truth is known."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et import Domain, bracket
from r2et.attacks import WorstCase
from r2et.certificates import bracketing, certify
from r2et.certificates.bracketing import judged_in_float64, larger
from r2et.domain import under_threat
from r2et.errors import ContradictionError, InputError
from r2et.explainers import Gradient, GradientTimesInput, IntegratedGradients
from tests.models_with_answers import linear, mlp, normal

RADII = (0.1, 0.4, 1.2)
FAST = WorstCase(k=1, radius=1.0, budget="fast")


def on_a_grid(model, x, radius, *, kept, points=161):
    """The lowest P@1 of two features at any point of a grid over the disc, (N,)."""
    side = torch.linspace(-radius, radius, points, dtype=torch.float64)
    moves = torch.cartesian_prod(side, side)
    moves = moves[moves.norm(dim=1) <= radius]
    lowest = []
    for row in x.double():
        there = torch.cat([row[None], row + moves]).requires_grad_()
        logits = model(there)
        target = int(logits[0].argmax())
        (gradient,) = torch.autograd.grad((logits[:, target] - logits[:, 1 - target]).sum(), there)
        first = gradient.abs().argmax(1)
        counts = (logits.argmax(1) == target) | (not kept)
        lowest.append(0.0 if bool(((first != first[0]) & counts).any()) else 1.0)
    return torch.tensor(lowest, dtype=torch.float64)


@pytest.mark.parametrize("prediction", ["kept", "free"])
@pytest.mark.parametrize("activation", [nn.Softplus, nn.Tanh, nn.ReLU])
def test_the_truth_lies_between_the_two_ends(activation, prediction):
    model, x = mlp(2, hidden=5, activation=activation, seed=3), 1.5 * normal(14, 2, seed=1)
    both = bracket(model, x, 1, radii=RADII, prediction=prediction, attack=FAST)
    for place, radius in enumerate(RADII):
        truth = on_a_grid(model, x, radius, kept=prediction == "kept")
        assert (both.proven[:, place] <= truth).all()
        # a point between those of the grid may flip what none of them does, never the other way round by much
        assert (both.attacked[:, place] <= truth).double().mean() > 0.9
    assert both.proven.min() < both.proven.max()
    assert both.attacked.min() < both.attacked.max()


def with_known_radius(boundary=-9.0):
    """Log-odds 2 softplus(x_0) + almost x_1 - c: the first feature leads where x_0 > 0.

    Slopes are 2 sigmoid(x_0) and 1. With x_1 = 0 the predicted class changes at x_0 = `boundary`.
    """
    model = nn.Sequential(nn.Linear(2, 2), nn.Softplus(), nn.Linear(2, 2)).double()
    at = torch.tensor([boundary, 0.0], dtype=torch.float64)
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1e-3]]))
        model[0].bias.zero_()
        model[2].weight.copy_(torch.tensor([[2.0, 2e3], [0.0, 0.0]]))
        model[2].bias.zero_()
        model[2].bias[0] = -float(model(at)[0])
    return model


def test_who_may_change_the_prediction_reaches_farther():
    """The list flips only behind the boundary between the classes."""
    model, x = with_known_radius(boundary=0.25), torch.tensor([[0.5, 0.0], [1.0, 0.0]], dtype=torch.float64)
    options = {"radii": [0.45, 0.55, 1.05], "domain": Domain(frozen=[1]), "attack": FAST}
    kept, free = (bracket(model, x, 1, prediction=name, **options) for name in ("kept", "free"))
    assert kept.attacked.tolist() == [[1.0, 1.0, 1.0]] * 2
    assert free.attacked.tolist() == free.proven.tolist() == [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    assert torch.equal(kept.proven, free.proven)
    assert model(free.points[:, -1]).argmax(1).tolist() == [1, 1]


def test_linear_models_are_closed_at_once():
    both = bracket(linear(6), normal(5, 6), 2, radii=[0.5, 50.0], attack=FAST)
    assert (both.proven == 1).all()
    assert (both.width == 0).all()
    assert both.attack == "WorstCase-2 (fast)"


def test_both_ends_meet_at_the_known_radius():
    x = torch.tensor([[0.5, 0.0], [1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)
    near, far = (0.99 * x[:, 0]).tolist(), (1.01 * x[:, 0]).tolist()
    radii = sorted([*near, *far])
    both = bracket(with_known_radius(), x, 1, radii=radii, prediction="free", attack=FAST)
    for row in range(3):
        assert both.proven[row, radii.index(near[row])] == 1
        assert both.attacked[row, radii.index(far[row])] == 0


def test_a_certificate_that_is_one_percent_too_large_contradicts_the_attack(monkeypatch):
    """Negative control, where the radius is known."""
    model, x = with_known_radius(), torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    options = {"radii": [1.005], "prediction": "free", "attack": FAST}
    assert bracket(model, x, 1, **options).attacked.tolist() == [[0.0]]

    def stretched(*args, radii=None, **settings):
        asked = None if radii is None else [radius / 1.01 for radius in radii]
        certificate = certify_within(*args, radii=asked, **settings)
        return replace(certificate, limits=1.01 * certificate.limits)

    certify_within = bracketing.certify_within
    monkeypatch.setattr(bracketing, "certify_within", stretched)
    with pytest.raises(ContradictionError, match="not sound for this model"):
        bracket(model, x, 1, **options)


@pytest.mark.parametrize("prediction", ["kept", "free"])
def test_ends_never_rise_with_the_radius(prediction):
    model, x = mlp(8, hidden=12, seed=2), normal(10, 8)
    both = bracket(model, x, 3, radii=[1.0, 0.05, 0.3, 0.3], prediction=prediction, attack="noise")
    assert both.radii == (0.05, 0.3, 1.0)
    assert (both.proven.diff(dim=1) <= 0).all()
    assert (both.attacked.diff(dim=1) <= 0).all()
    assert (both.distance <= torch.tensor(both.radii) * (1 + 1e-9)).all()


def test_a_point_of_a_smaller_radius_counts_at_larger_ones():
    model, x = mlp(8, hidden=12, seed=2), normal(4, 8)
    attack = WorstCase(k=3, radius=1.0, budget="fast")
    (at_half,) = attack(model, x, radii=[0.5])
    _, reach = under_threat(model, x, None, None)
    # the search at the larger radius ended where it began
    nothing = replace(at_half, x=x.clone())
    found = judged_in_float64(model, x, attack, [at_half, nothing], reach=reach, radii=[0.5, 1.0])
    assert (at_half.precision < 1).any()
    for result in found:
        torch.testing.assert_close(result.precision, at_half.precision)
    # and at a smaller one it is brought into the ball before it is judged
    (shrunk,) = judged_in_float64(model, x, attack, [at_half], reach=reach, radii=[0.01])
    assert (shrunk.distance <= 0.01 * (1 + 1e-9)).all()


def test_models_in_float32_are_judged_in_float64():
    model, x = mlp(8, hidden=12, seed=2).float(), normal(6, 8).float()
    both = bracket(model, x, 3, radii=[0.1, 0.5], attack="boundary")
    assert next(model.parameters()).dtype == torch.float32
    assert both.points.dtype == both.attacked.dtype == both.proven.dtype == torch.float64
    exact = bracket(model.double(), x.double(), 3, radii=[0.1, 0.5], attack="boundary")
    assert torch.equal(both.proven, exact.proven)
    assert torch.equal(both.attacked, exact.attacked)


def test_both_ends_know_the_threat():
    model, x = mlp(6, hidden=8, seed=4), normal(5, 6)
    domain = Domain(frozen=[0, 1, 2])
    both = bracket(model, x, 2, radii=[0.3, 1.0], domain=domain, attack="boundary")
    assert both.threat == "domain"
    moved = (both.points - x.unsqueeze(1)).abs().amax((0, 1))
    assert (moved[:3] == 0).all()
    assert (moved[3:] > 0).all()
    assert torch.equal(both.proven[:, 0], certify(model, x, 2, radii=[0.3], domain=domain).precision_at(0.3))


@pytest.mark.parametrize("explainer", [GradientTimesInput(), Gradient(reduce="signed")])
def test_other_explanations(explainer):
    both = bracket(mlp(5, seed=1), normal(4, 5), 2, radii=[0.1, 0.5], explainer=explainer, attack="boundary")
    assert (both.proven[:, 0] > 0).any()


def test_the_larger_limit_of_two_certificates_counts():
    model, x = mlp(8, hidden=12, activation=nn.Tanh, seed=2), normal(6, 8)
    first, second = certify(model, x, 3, radii=[0.5]), certify(model, x[2:4], 3, method="integral")
    both = larger(first, second, torch.tensor([2, 3]))
    assert torch.equal(both.limits[:2], first.limits[:2])
    assert torch.equal(both.limits[2:4], torch.maximum(first.limits[2:4], second.limits))
    assert both.methods == ("dual", "integral")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"prediction": "lost"}, "unknown prediction 'lost'"),
        ({"method": "first-order"}, "unknown method 'first-order'"),
        ({"radii": []}, "radii is empty"),
        ({"explainer": IntegratedGradients()}, "no sound certificate"),
        ({"attack": "nobody"}, "nobody"),
    ],
)
def test_what_is_refused_is_refused_before_the_attack(options, match, monkeypatch):
    monkeypatch.setattr(bracketing, "_attacked", lambda *_, **__: pytest.fail("it was attacked"))
    with pytest.raises(InputError, match=match):
        bracket(mlp(5), normal(3, 5), 2, **({"radii": [0.1]} | options))
