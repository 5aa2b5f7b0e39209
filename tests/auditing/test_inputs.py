import pandas as pd
import pytest
import torch

import r2et
from r2et import audit, models
from r2et.auditing.inputs import typical_spread
from r2et.errors import InputError
from tests.auditing.toys import X, Y, strict_json
from tests.models_with_answers import linear, normal


def test_radii_come_from_the_data_s_scale(fragile):
    scale = X.std(0, correction=0).median()
    found = audit(fragile, 10 * X, Y, k=2, budget="fast", steps=2, certificate=False)
    assert found.settings.scale == pytest.approx(10 * float(scale))
    assert list(found.samples.radii) == [float(f"{share * 10 * scale:.2g}") for share in (0.1, 0.3, 1.0)]
    assert "0.1, 0.3 and 1 times the standard deviation of a typical feature" in found.settings.radii_reason


def test_radii_of_rows_that_do_not_vary(fragile):
    found = audit(fragile, X[:1].repeat(3, 1), Y[:3], k=2, budget="fast", steps=2, certificate=False)
    assert found.samples.radii == (0.1, 0.3, 1.0)
    assert "no feature that may be moved varies" in found.settings.radii_reason
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
        (
            {"x": pd.DataFrame({"age": [1.0, 2.0], "job": ["cook", "nurse"]})},
            "1 of 2 columns of x do not hold numbers: job",
        ),
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
