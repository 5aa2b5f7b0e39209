"""A model is built from its description, and only from one that fits."""

import pytest

from r2et import models
from r2et.errors import InputError


def test_create_checks_names():
    with pytest.raises(InputError, match=r"unknown model 'mpl': did you mean 'mlp'\?"):
        models.create("mpl", features=4, classes=2)
    with pytest.raises(InputError, match="colour"):
        models.create("mlp", features=4, classes=2, colour="red")
    with pytest.raises(InputError, match="linear"):
        models.create("linear", features=4)
