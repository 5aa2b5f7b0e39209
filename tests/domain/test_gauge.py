"""f o A: equal on rows that exist, and blind to what they do not determine."""

import pytest
import torch
from torch import nn

import r2et
from r2et.domain import without_gauge
from r2et.enclosure.reading import extract
from r2et.explainers import Gradient, GradientTimesInput, IntegratedGradients, SmoothGrad
from tests.domain.test_reach import DOMAIN, GROUPS, table_rows

C = 30.0


class Gauged(nn.Module):
    """A model plus C (sum of a group - 1): the same on every row that exists."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        off = sum(C * (x[:, group].sum(1) - 1) for group in GROUPS)
        return self.model(x) + torch.stack([torch.zeros_like(off), off], 1)


def per_neuron(model):
    """The same model with W_1[:, G] += c, b_1 -= c."""
    other = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        for group in GROUPS:
            shift = torch.randn(16, generator=torch.Generator().manual_seed(1)).double()
            other[0].weight[:, group] += shift[:, None]
            other[0].bias -= shift
    return other


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).double()


def test_rows_that_exist_keep_their_logits_to_the_last_bit(model):
    x = table_rows(50)
    assert torch.equal(without_gauge(model, DOMAIN, 8)(x), model(x))
    single = model.float()
    assert torch.equal(without_gauge(single, DOMAIN, 8)(x.float()), single(x.float()))


@pytest.mark.parametrize("gauge", [Gauged, per_neuron])
@pytest.mark.parametrize(
    "explainer",
    [Gradient(), GradientTimesInput(), SmoothGrad(samples=5), IntegratedGradients(points=8)],
    ids=lambda explainer: type(explainer).__name__,
)
def test_explanations_do_not_see_the_gauge(model, gauge, explainer):
    x, other = table_rows(20), gauge(model)
    assert torch.allclose(model(x), other(x), atol=1e-12)
    scores, gauged = (explainer(f, x, domain=DOMAIN) for f in (model, other))
    assert torch.allclose(scores, gauged, atol=1e-10)
    # without the mending they see it
    assert (explainer(model, x) - explainer(other, x)).abs().max() > 1e-2


def test_enclosures_read_it(model):
    network = extract(without_gauge(model, DOMAIN, 8), torch.Size([8]))
    x = table_rows(6)
    assert torch.allclose(network.forward(x)[1], model(x))
    assert torch.allclose(network.base[:, GROUPS[0]].sum(1), torch.zeros(16).double(), atol=1e-12)


def test_nothing_known_is_nothing_changed(model):
    assert without_gauge(model, r2et.Domain(frozen=[6]), 8) is model


def test_the_model_is_left_in_its_mode(model):
    model.train()
    model[1].eval()
    free = without_gauge(model, DOMAIN, 8)
    assert free.training
    assert not model[1].training
    assert not any(
        parameter.requires_grad for parameter in [*free.correction.parameters(), *free.back.parameters()]
    )


def test_a_group_and_equal_features_together():
    """f + C (x_1 - x_2) + C (x_0 + x_1 - 1) has one explanation, whatever C is."""
    domain = r2et.Domain(groups=[[0, 1]], equal=[[1, 2]])
    x = torch.tensor([[1.0, 0.0, 0.0, 0.7], [0.0, 1.0, 1.0, -0.2]], dtype=torch.float64)

    class Trapped(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.size = size

        def forward(self, x):
            margin = x @ torch.tensor([1.0, 2.0, -0.5, 0.3], dtype=torch.float64)
            margin = margin + self.size * (x[:, 1] - x[:, 2] + x[:, 0] + x[:, 1] - 1)
            return torch.stack([-margin / 2, margin / 2], 1)

    plain, trapped = (Gradient()(Trapped(size), x, domain=domain) for size in (0.0, 30.0))
    assert torch.allclose(plain, trapped, atol=1e-10)
