"""A network of one output as one of two sides, and the names of sides."""

import numpy as np
import pytest
import torch
from torch import nn

from r2et import models
from r2et.errors import InputError
from r2et.estimator.sides import Sides, two_sided

MODELS = {
    "mlp": lambda: models.MLP(4, 1, (5, 3), "softplus", 2.0),
    "linear": lambda: models.Linear(4, 1),
    "additive": lambda: models.Additive(4, 1, numeric=[0, 1], groups=[[2, 3]], units=3),
    "no hidden layer": lambda: models.MLP(4, 1, ()),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_second_side_is_the_output_and_the_first_is_zero(name):
    torch.manual_seed(0)
    model, x = MODELS[name]().double(), torch.randn(6, 4, dtype=torch.float64)
    before = [weight.clone() for weight in model.parameters()]
    sides = two_sided(model)
    logits = sides(x)
    assert torch.equal(logits[:, 0], torch.zeros(6, dtype=torch.float64))
    torch.testing.assert_close(logits[:, 1:], model(x).detach(), rtol=1e-12, atol=1e-12)
    assert type(sides) is type(model)
    assert not sides.training
    assert all(map(torch.equal, model.parameters(), before))
    assert all(weight.requires_grad for weight in model.parameters())


def test_a_side_is_found_by_its_name_or_by_its_text():
    sides = Sides(nn.Identity(), [1, 2], ("a", "b"), "classes")
    assert [sides.number(name) for name in (1, 2, "1", "2", np.int64(2))] == [0, 1, 0, 1, 1]
    for name in (3, "3", True, None, [1], 1.5):
        with pytest.raises(InputError, match="is none of the classes"):
            sides.number(name)
    truths = Sides(nn.Identity(), [False, True], ("a", "b"), "classes")
    assert [truths.number(np.bool_(value)) for value in (0, 1)] == [0, 1]
