"""The frame of lists, row by row."""

import numpy as np
import pandas as pd
import torch
from torch import nn

from r2et import Domain
from r2et.estimator.lists import listed, own_values
from r2et.explainers import Activation, Gradient


def two_rows() -> tuple[nn.Module, torch.Tensor, pd.DataFrame]:
    model = nn.Linear(3, 2, bias=False).double()
    model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [1.0, -4.0, 2.0]], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)
    frame = pd.DataFrame({"age": [30.0, 41.5], "debt": [7, 8], "job": ["cook", "nurse"]}, index=["ann", "bob"])
    return model, x, frame


def test_each_list_is_in_order_with_the_row_s_own_values():
    model, x, frame = two_rows()
    told = listed(model, x, 2, frame=frame, names=list(frame), explainer=Gradient(), domain=Domain(), radius=True)
    assert told["row"].tolist() == ["ann", "ann", "bob", "bob"]
    assert told["rank"].tolist() == [1, 2, 1, 2]
    assert told["column"].tolist() == ["debt", "job"] * 2
    assert told["value"].tolist() == ["7", "cook", "8", "nurse"]
    assert told["score"].tolist() == [4.0, 2.0] * 2
    assert np.isinf(told["radius"]).all()
    assert told.attrs["individuality"]["one_list_for_everybody"]


def test_without_a_certificate_the_radius_is_no_number():
    model, x, frame = two_rows()
    net = nn.Sequential(model, nn.Tanh(), nn.Linear(2, 2).double())
    told = listed(
        net, x, 1, frame=frame, names=["a", "b"], explainer=Activation(layer="0"), domain=Domain(), radius=True
    )
    assert told["radius"].isna().all()
    assert "radius" not in listed(
        net, x, 1, frame=frame, names=["a", "b"], explainer=Activation(layer="0"), domain=Domain(), radius=False
    )


def test_whole_numbers_have_no_fraction():
    frame = two_rows()[2]
    assert own_values(frame, np.array([0, 1, 1]), np.array([0, 0, 2])) == ["30", "41.5", "nurse"]
