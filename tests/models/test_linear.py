import pytest
import torch

from r2et import models
from r2et.errors import InputError
from r2et.explainers import Gradient
from tests.models_with_answers import normal


def test_a_linear_model_is_linear():
    model = models.Linear(4, 3).double()
    x = normal(7, 4)
    torch.testing.assert_close(model(x), x @ model.weight.T + model.bias, rtol=0, atol=1e-14)
    zero = torch.zeros(1, 4, dtype=torch.float64)
    torch.testing.assert_close(
        model(x[:1] + x[1:2]) + model(zero), model(x[:1]) + model(x[1:2]), rtol=0, atol=1e-12
    )


def test_two_classes_have_one_explanation_up_to_its_sign():
    """The gradient of the log-odds is the difference of the two rows of weights, wherever the input is."""
    model = models.Linear(4, 2).double()
    x = normal(20, 4)
    expected = (model.weight[1] - model.weight[0]).abs().detach()
    torch.testing.assert_close(Gradient()(model, x).abs(), expected.expand(20, 4), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("sizes", "name"), [((0, 2), "features=0"), ((4, 0), "classes=0"), ((4, 2.5), "classes=2.5")]
)
def test_bad_sizes(sizes, name):
    with pytest.raises(InputError, match=name):
        models.Linear(*sizes)
