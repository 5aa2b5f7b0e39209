"""Contributions to networks with one hidden layer: what is certified holds against attacks, and closely."""

import numpy as np
import pytest
import torch
from torch import nn

from r2et import Columns, certify, ranking
from r2et.certificates import Smoothing, coalitions
from r2et.certificates.coalitions import curvatures
from r2et.enclosure.activations import activation as enclosed
from r2et.errors import InputError, ModelError
from r2et.explainers import Background, Contributions
from tests.models_with_answers import generator
from tests.tables_with_traps import COLUMNS, DOMAIN, network, table

SMOOTH = (nn.Softplus, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU)


def explainer(columns=COLUMNS, rows=5, **options):
    return Contributions(columns=columns, background=Background(table(rows, seed=8)), **options)


def listed(own, scores, k):
    return ranking.list_mask(scores if own.reduce == "signed" else scores.abs(), k, positive=own.positive)


def still(model):
    return model.double().requires_grad_(requires_grad=False)


def worst(model, x, k, own, radius, *, restarts=6, steps=12, target=None):
    """P@k (N,) that an attack leaves inside `radius` (N,): descent on the gap of the list, from several places."""
    movable = COLUMNS.continuous.to(x)
    target = model(x).argmax(1) if target is None else target
    clean = listed(own, own(model, x, target), k)
    step = torch.randn(restarts, *x.shape, generator=generator(1), dtype=x.dtype) * movable
    step = step / step.norm(dim=2, keepdim=True) * radius[:, None]
    step[0] *= 1e-3
    rows, far = x.repeat(restarts, 1), radius.repeat(restarts)[:, None]
    kept, classes, step = clean.repeat(restarts, 1), target.repeat(restarts), step.flatten(0, 1)
    left = torch.ones(len(rows), dtype=x.dtype)
    for number in range(steps):
        point = (rows + step).requires_grad_()
        scores = own.attribute(model, point, classes, create_graph=True)
        left = torch.minimum(left, ranking.list_precision(listed(own, scores.detach(), k), kept, x.dtype))
        size = scores if own.reduce == "signed" else scores.abs()
        none = size.new_zeros(len(size), 1) - (0.0 if own.positive else torch.inf)
        inside = size.masked_fill(~kept, torch.inf).amin(1)
        outside = torch.cat([size.masked_fill(kept, -torch.inf), none], 1).amax(1)
        gap = torch.where(kept.any(1), inside, 0.0).clamp_max(1e9) - outside
        (slope,) = torch.autograd.grad(gap.sum(), point)
        step = step - 0.5 * 0.8**number * far * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300) * movable
        step = step * (far / step.norm(dim=1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    return left.reshape(restarts, -1).amin(0)


@pytest.mark.parametrize("reduce", ["signed", "abs"])
@pytest.mark.parametrize("kind", SMOOTH)
def test_nothing_inside_the_radius_changes_the_list_and_not_far_outside_something_does(kind, reduce):
    model, x, own = still(network(seed=3, activation=kind)), table(6, seed=5), explainer(reduce=reduce)
    changed = []
    for k in (1, 4):
        said = certify(model, x, k, explainer=own, domain=DOMAIN)
        assert said.methods == ("quadratic",)
        assert (said.radius > 0).any()
        assert (worst(model, x, k, own, 0.999 * said.radius) == 1).all()
        for radius in (0.1, 0.5):
            assert (
                said.precision_at(radius) <= worst(model, x, k, own, torch.full((6,), radius).to(x)) + 1e-12
            ).all()
        changed += (worst(model, x, k, own, 1.5 * said.radius + 1e-6) < 1).tolist()
    assert np.mean(changed) > 0.5


def test_radii_that_are_a_little_too_large_are_caught():
    """A nearly linear network is certified closely, and an attack sees what is claimed beyond."""
    model, x, own = still(network(seed=3)), table(12, seed=5), explainer()
    with torch.no_grad():
        model[0].weight.mul_(0.02)
    said = certify(model, x, 2, explainer=own, domain=DOMAIN)
    near = said.radius.clamp_max(10.0)
    assert (worst(model, x, 2, own, 0.999 * near, steps=25) == 1).all()
    assert (worst(model, x, 2, own, 1.03 * near, steps=25) < 1).any()


def test_curvature_at_the_inner_end_alone_is_caught(monkeypatch):
    model, own = still(network(seed=3, activation=nn.Tanh)), explainer()
    monkeypatch.setattr(coalitions, "curvatures", lambda act, z, ends: act.curvature(z + 0 * ends, z + 0 * ends))
    x = table(40, seed=5)
    said = certify(model, x, 3, explainer=own, domain=DOMAIN)
    assert (worst(model, x, 3, own, 0.999 * said.radius.clamp_max(3.0)) < 1).any()


def test_without_the_background_of_the_explanation_there_is_no_certificate(monkeypatch):
    real = coalitions.Coalitions._prepare

    def forgetful(self):
        self.background = self.background[:-1]
        real(self)

    monkeypatch.setattr(coalitions.Coalitions, "_prepare", forgetful)
    with pytest.raises(ModelError, match="contributions"):
        certify(still(network()), table(3, seed=1), 2, explainer=explainer(), domain=DOMAIN)


@pytest.mark.parametrize("kind", SMOOTH)
def test_average_curvatures_are_enclosed_and_closer_than_the_range_of_the_curvature(kind):
    act = enclosed(kind())
    z = torch.linspace(-6, 6, 241, dtype=torch.float64)[:, None, None]
    ends = torch.tensor([1e-9, 1e-4, 0.03, 0.4, 2.0, 5.0], dtype=torch.float64)
    low, high = curvatures(act, z, ends.expand(241, 1, 6))
    for share in np.linspace(-1, 1, 41):
        y = share * ends
        # by Gauss-Legendre, which shares no code: K = 2 int (1 - s) sigma''(z + s y) ds
        nodes, weights = np.polynomial.legendre.leggauss(40)
        s, w = torch.tensor((nodes + 1) / 2)[:, None, None, None], torch.tensor(weights / 2)[:, None, None, None]
        average = (2 * w * (1 - s) * act.bend(z + s * y)).sum(0)
        assert (low <= average + 1e-12).all()
        assert (high >= average - 1e-12).all()
    widest = act.curvature(z - ends, z + ends)
    assert (low >= widest[0] - 1e-12).all()
    assert (high <= widest[1] + 1e-12).all()
    assert ((high - low)[..., 3] < 0.8 * (widest[1] - widest[0])[..., 3]).double().mean() > 0.5


def test_limits_at_asked_radii_are_limits_and_hardly_smaller_than_those_of_a_search():
    model, x, own = still(network(seed=3)), table(10, seed=5), explainer()
    said, asked = (certify(model, x, 3, explainer=own, domain=DOMAIN, radii=r) for r in (None, [0.1, 0.3]))
    for radius in (0.1, 0.3):
        assert asked.precision_at(radius).mean() >= said.precision_at(radius).mean() - 0.1
        assert (
            asked.precision_at(radius) <= worst(model, x, 3, own, torch.full((10,), radius).to(x)) + 1e-12
        ).all()


def test_a_row_alone_has_the_radius_that_it_has_among_others():
    model, x, own = still(network(seed=3)), table(5, seed=5), explainer()
    together = certify(model, x, 3, explainer=own, domain=DOMAIN)
    alone = [certify(model, row[None], 3, explainer=own, domain=DOMAIN).radius for row in x]
    torch.testing.assert_close(together.radius, torch.cat(alone), rtol=1e-3, atol=0)


def test_a_gauge_of_a_category_changes_no_certificate():
    model, other = network(seed=3), network(seed=3)
    with torch.no_grad():
        other[0].weight[:, 3:6] += 7.0
        other[0].bias -= 7.0
    x, own = table(5, seed=5), explainer()
    radii = [certify(still(m), x, 3, explainer=own, domain=DOMAIN).radius for m in (model, other)]
    torch.testing.assert_close(*radii, rtol=1e-6, atol=0)


def test_the_prediction_can_be_certified_too():
    model, x, own = still(network(seed=3)), table(6, seed=5), explainer()
    plain, both = (certify(model, x, 2, explainer=own, domain=DOMAIN, prediction=p) for p in (False, True))
    assert torch.equal(both.radius, torch.minimum(plain.radius, both.details["prediction"]))


def test_what_has_no_certificate_is_refused_with_a_way_out():
    x, own = table(3, seed=1), explainer()
    deep = still(nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)))
    cases = [
        (deep, own, "at most one hidden layer"),
        (network(activation=nn.ReLU), own, "hinges"),
        (network(classes=3), own, "score='logit'"),
        (network(classes=3), explainer(score="margin"), "score='logit'"),
        (network(), explainer(score="probability"), "score='log-odds'"),
    ]
    for model, one, why in cases:
        with pytest.raises(InputError, match=why) as error:
            certify(still(model), x, 2, explainer=one, domain=DOMAIN)
        assert "smoothing" in str(error.value)
    with pytest.raises(InputError, match="dual"):
        certify(still(network()), x, 2, explainer=own, domain=DOMAIN, method="dual")
    said = certify(still(network(classes=3)), x, 2, explainer=explainer(score="logit"), domain=DOMAIN)
    assert (said.radius > 0).any()


def test_smoothing_certifies_frequencies_and_moves_numbers_alone():
    x, own = table(2, seed=1), explainer()
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = still(
                nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
            )

        def forward(self, rows):
            seen.append(rows[:, 3:].detach())
            return self.inner(rows)

    said = certify(Spy(), x, 2, explainer=own, domain=DOMAIN, method=Smoothing(samples=60, alpha=0.1))
    assert said.method == "smoothing"
    assert ((torch.cat(seen) == 0) | (torch.cat(seen) == 1)).all()


def test_a_table_without_numbers_and_one_of_a_single_neuron():
    columns = Columns(("a", "b"), ((0,), (1,)), ("flag", "flag"), ((0.5, 0.5), (0.5, 0.5)))
    rows = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    own = Contributions(columns=columns, background=Background(((0.0, 0.0),)))
    model = still(nn.Sequential(nn.Linear(2, 1), nn.Tanh(), nn.Linear(1, 2)))
    said = certify(model, rows, 1, explainer=own, domain=columns.domain(), target=torch.tensor([1, 1]))
    assert said.radius.isinf().all()
