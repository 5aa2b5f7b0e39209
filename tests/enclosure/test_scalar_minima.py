"""Minima of one neuron's term against a fine grid; and places of a curvature against the curvature itself."""

import pytest
import torch
from torch import nn

from r2et.enclosure import scalar_minima
from r2et.enclosure.activations import MaxPool, Softplus, activation
from r2et.enclosure.ranges import Smooth
from r2et.enclosure.scalar_minima import Neurons, about_bent, has_minima, least, least_bent
from tests.models_with_answers import generator

EXACT = (nn.Softplus(), nn.Softplus(5.0), nn.Softplus(1000.0), nn.Softplus(3.0, 4.0), nn.Tanh(), nn.Sigmoid())
HINGED = (nn.ReLU(), nn.LeakyReLU(0.2), nn.LeakyReLU(-0.3))
BY_PIECES = (nn.GELU(), nn.SiLU())


def drawn(count, seed=0):
    """Neurons and slopes (count,), some of them zero, some intervals a point."""
    source = generator(seed)

    def normal():
        return torch.randn(count, generator=source, dtype=torch.float64)

    def uniform():
        return torch.rand(count, generator=source, dtype=torch.float64)

    beta, z, size = normal(), 3 * normal(), 10 ** (4 * uniform() - 2.5)
    slope = beta * normal() * 10 ** (-4 * uniform())
    low, high = -size * uniform(), size * uniform()
    slope[::5], beta[::7], z[::9] = 0.0, 0.0, 0.0
    low[::11], high[::11] = 0.0, 0.0
    return Neurons(beta, z, low, high), slope


def on_a_grid(known, neurons, slope, bend=None):
    beta, z, low, high = neurons
    bend = torch.zeros_like(slope) if bend is None else bend
    y = low[:, None] + (high - low)[:, None] * torch.linspace(0, 1, 4001, dtype=torch.float64)
    line = (slope[:, None] + bend[:, None] * y / 2) * y
    return (beta[:, None] * known.slope_at(z[:, None] + y) - line).amin(1)


@pytest.mark.parametrize("module", [*EXACT, *HINGED, *BY_PIECES], ids=repr)
def test_the_minimum_is_below_a_fine_grid_and_close_to_it(module):
    known, case = activation(module), drawn(1500)
    value, place = least(known, *case)
    (beta, z, low, high), slope = case
    searched = on_a_grid(known, *case)
    size = beta.abs() + (slope.abs() * (high - low))
    assert (value <= searched + 1e-13 * size).all()
    assert ((place >= low) & (place <= high)).all()
    # on a hinge itself a grid sees one side alone
    loose = ((searched - value) / size.clamp_min(1e-300))[(z != 0) | (low < high)]
    assert float(loose.max()) < (0.05 if module in BY_PIECES else 2e-3)
    assert float(loose.median()) < (1e-3 if module in BY_PIECES else 1e-6)


@pytest.mark.parametrize("module", EXACT, ids=repr)
def test_without_stationary_points_the_minimum_is_caught(module, monkeypatch):
    known, case = activation(module), drawn(1500)
    monkeypatch.setattr(known, "places", lambda curvature: ())
    assert (least(known, *case)[0] > on_a_grid(known, *case) + 1e-6).any()


@pytest.mark.parametrize("module", EXACT, ids=repr)
def test_places_of_a_curvature_are_all_of_them(module):
    known = activation(module)
    z = torch.linspace(-6, 6, 401, dtype=torch.float64) / getattr(module, "beta", 1.0)
    # the steepest place of all is one that rounding may miss
    z = z[known.curvature(z, z)[0].abs() < 0.999 * known.curvature(z, z)[0].abs().amax()]
    curvature = known.curvature(z, z)[0]
    places = torch.stack(known.places(curvature))
    assert ((places - z).abs().amin(0) < 1e-5).all()
    beyond = known.curvature(z * 0 - 50, z * 0 + 50)[1] * 1.01
    assert torch.stack(known.places(beyond)).isnan().all()


def test_a_hinge_counts_on_both_sides():
    at, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    assert float(least(activation(nn.ReLU()), Neurons(one, at, at, at), at)[0]) == 0
    assert float(least(activation(nn.ReLU()), Neurons(-one, at, at, at), at)[0]) == -1
    assert float(least(activation(nn.ReLU()), Neurons(one, at + 0.5, at - 0.4, at + 9), at)[0]) == 1


@pytest.mark.parametrize("module", [nn.Tanh(), nn.ReLU(), nn.GELU()], ids=repr)
@pytest.mark.parametrize("unknown", ["low", "high", "z"])
def test_what_is_not_a_number_stays_one(module, unknown):
    at, one = torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    neurons = Neurons(one, at, at - 1, at + 1)
    broken = neurons._replace(
        **{unknown: getattr(neurons, unknown).clone().index_fill(0, torch.tensor([1]), torch.nan)}
    )
    value = least(activation(module), broken, 0.1 * one)[0]
    assert value.isnan().tolist() == [False, True, False]


def test_which_activations_have_minima():
    assert has_minima(Softplus())
    assert has_minima(activation(nn.ReLU()))
    assert has_minima(Smooth(torch.sin, torch.cos, lambda z: -torch.sin(z)))
    assert not has_minima(MaxPool(torch.ones(2, 2, dtype=torch.bool)))
    assert not has_minima(None)


def cube():
    """An activation of somebody's own, of which no third derivative is known."""
    return Smooth(lambda z: z**3 / 3, lambda z: z**2, lambda z: 2 * z, (0.0,))


def bent_case(known, count=1500):
    """Neurons, slopes and bends of either sign, some of them as large as the term's own curvature."""
    neurons, slope = drawn(count)
    # over lengths at which the activation bends, not over hundreds of them
    neurons = Neurons(neurons.beta, neurons.z, neurons.low.clamp_min(-1), neurons.high.clamp_max(1))
    bend = neurons.beta * torch.randn(count, generator=generator(4), dtype=torch.float64)
    bend[::6] = 0.0
    return neurons, slope, bend


@pytest.mark.parametrize("module", [*EXACT, *BY_PIECES, None], ids=repr)
def test_with_a_bend_the_bound_is_below_a_fine_grid_and_the_search_near_it(module):
    known = cube() if module is None else activation(module)
    case = bent_case(known)
    searched, bound = on_a_grid(known, *case), least_bent(known, *case)[0]
    size = case[0].beta.abs() + (case[1].abs() + case[2].abs()) * (case[0].high - case[0].low)
    assert (bound <= searched + 1e-13 * size).all()
    loose = (searched - bound) / size.clamp_min(1e-300)
    assert float(loose.median()) < 1e-3
    value, place = about_bent(known, *case)
    assert ((place >= case[0].low - 1e-12) & (place <= case[0].high + 1e-12)).all()
    assert float(((value - searched).abs() / size.clamp_min(1e-300)).median()) < 1e-3


@pytest.mark.parametrize("module", [*EXACT[:2], *BY_PIECES], ids=repr)
def test_a_curvature_taken_in_the_middle_of_a_piece_alone_is_caught(module, monkeypatch):
    known, case = activation(module), bent_case(activation(module))
    twist = known.twist
    monkeypatch.setattr(known, "twist", lambda lower, upper: twist((lower + upper) / 2, (lower + upper) / 2))
    monkeypatch.setattr(scalar_minima, "BENT_PIECES", 4)
    assert (least_bent(known, *case)[0] > on_a_grid(known, *case) + 1e-9).any()


def test_what_is_not_a_number_stays_one_with_a_bend():
    neurons, slope, bend = bent_case(None)
    slope[3], bend[4] = torch.nan, torch.nan
    assert least_bent(activation(nn.Tanh()), neurons, slope, bend)[0][3:5].isnan().all()


@pytest.mark.parametrize("module", [nn.Tanh(), nn.Sigmoid(), nn.Softplus()], ids=repr)
def test_places_of_the_faintest_curvature_are_where_it_is(module):
    """Far out a slope is next to 0 and its curvature still has all its digits."""
    known = activation(module)
    wanted = -torch.logspace(-3, -200, 60, dtype=torch.float64)
    wanted = wanted if not isinstance(module, nn.Softplus) else -wanted
    place = known.places(wanted)[0]
    assert torch.allclose(known.curvature(place, place)[0], wanted, rtol=1e-9, atol=0)
