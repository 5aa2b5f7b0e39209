"""The search without gradients: never kinder than noise, and all there is where an explanation has no slope."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from r2et.attacks import NoiseAttack, RandomSearchAttack, WorstCase
from r2et.explainers import Explainer
from tests.models_with_answers import mlp, normal


@dataclass(frozen=True, kw_only=True)
class Steps(Explainer):
    """Attributions of a tree: constant between thresholds, no derivative anywhere."""

    def attribute(self, model, x, target, *, create_graph=False, logits=None):
        weights = normal(x.shape[1], x.shape[1], seed=1).to(x)
        return torch.floor(3 * x.detach() @ weights) + torch.arange(x.shape[1]).to(x) / 100


class Constant(nn.Module):
    """A decision that never changes."""

    def forward(self, x):
        return torch.stack([x.sum(1) * 0, x.sum(1) * 0 + 1], dim=1)


@pytest.mark.filterwarnings("ignore:WorstCase. the explanation changes")
def test_an_explanation_without_slopes_is_never_kinder_than_noise():
    x = normal(6, 8, seed=4)
    shared = {"k": 3, "radius": 0.3, "explainer": Steps()}
    radii = (0.05, 0.3)
    worst = WorstCase(**shared)(Constant(), x, seed=2, radii=radii)
    noise = NoiseAttack(**shared, steps=1000)(Constant(), x, seed=2, radii=radii)
    for one, other in zip(worst, noise, strict=True):
        assert (one.precision <= other.precision).all()
    assert float(worst[1].precision.mean()) < float(worst[0].precision.mean()) < 1


def test_an_explanation_without_slopes_is_named():
    x = normal(4, 8, seed=4)
    attack = WorstCase(k=3, radius=0.3, explainer=Steps(), budget="fast")
    with pytest.warns(UserWarning, match="WorstCase: the explanation changes and has no slope"):
        result = attack(Constant(), x)
    assert len(result.notes) == 1
    assert "no slope" in repr(result)


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_an_explanation_with_slopes_is_not(activation, recwarn):
    result = WorstCase(k=2, radius=0.3, budget="fast")(mlp(activation=activation), normal(4, 6, seed=4))
    assert result.notes == ()
    assert not [warning for warning in recwarn if "no slope" in str(warning.message)]


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("steps", [1, 30, 100])
def test_it_is_never_kinder_than_noise_of_as_many_draws(norm, steps):
    model, x = mlp(8, 3, hidden=12, activation=nn.ReLU, seed=1), normal(12, 8, seed=4)
    shared = {"k": 3, "radius": 0.3, "norm": norm, "steps": steps}
    noise = NoiseAttack(**shared)(model, x, seed=3)
    alone = RandomSearchAttack(**shared, rounds=0)(model, x, seed=3)
    assert torch.equal(alone.precision, noise.precision)
    more = RandomSearchAttack(**shared, rounds=10)(model, x, seed=3)
    assert (more.precision <= noise.precision).all()
    assert norm == "linf" or float(more.precision.mean()) < float(noise.precision.mean())
