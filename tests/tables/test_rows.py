"""What audits take."""

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.tables import Encoding, Rows
from r2et.tables.rows import read_rows

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 0, 1, 1, 0])
FRAME = pd.DataFrame(X.numpy(), columns=["age", "pay", "size"], index=list("abcdef"))
FAST = {"k": 1, "radii": (0.5,), "budget": "fast", "steps": 2, "certificate": False}


def test_rows_and_tensors_are_not_copied():
    net = torch.nn.Linear(3, 2)
    rows = Rows(X, Y, ("age", "pay", "size"))
    assert read_rows(rows, None, net) is rows
    assert read_rows(X, Y, net).x is X


def test_frames_get_the_dtype_of_the_model_and_keep_their_names():
    rows = read_rows(FRAME, pd.Series(Y.numpy()), torch.nn.Linear(3, 2).double())
    assert (rows.x.dtype, rows.names, rows.index) == (torch.float64, ("age", "pay", "size"), tuple("abcdef"))
    assert torch.equal(rows.x, X.double())
    assert read_rows(FRAME.reset_index(drop=True), Y, torch.nn.Linear(3, 2)).index == ()


def test_an_audit_of_rows_is_that_of_their_frame():
    torch.manual_seed(0)
    net = r2et.models.MLP(3, 2)
    rows = Rows(X, Y, tuple(FRAME.columns), tuple(FRAME.index))
    ours, theirs = r2et.audit(net, rows, **FAST), r2et.audit(net, FRAME, Y, **FAST)
    assert ours.to_dict() == theirs.to_dict()
    assert ours.feature_names == theirs.feature_names == ("age", "pay", "size")


def test_an_audit_stays_inside_the_domain_of_its_rows():
    torch.manual_seed(0)
    net = r2et.models.MLP(3, 2, hidden=[8])
    frozen = r2et.Domain(frozen=[0, 1, 2])
    moved, still = (r2et.audit(net, Rows(X, Y, domain=domain), **FAST) for domain in (None, frozen))
    assert max(row.distance for row in still.attacks) == 0
    assert max(row.distance for row in moved.attacks) > 0


def test_labels_are_told_once():
    with pytest.raises(r2et.errors.InputError, match="leave out y"):
        r2et.audit(torch.nn.Linear(3, 2), Rows(X, Y), Y, **FAST)
    with pytest.raises(r2et.errors.InputError, match="labels must be class numbers"):
        r2et.audit(torch.nn.Linear(3, 2), X, **FAST)


def test_an_encoding_makes_rows():
    frame = pd.DataFrame({"age": [20, 40, 30], "job": ["nurse", "cook", "cook"]}, index=["ann", "bob", "cy"])
    rows = Encoding.learn(frame).rows(frame, torch.tensor([0, 1, 1]), dtype=torch.float32)
    assert (rows.names, rows.index) == (("age", "job: nurse"), ("ann", "bob", "cy"))
    np.testing.assert_array_equal(rows.x[:, 1], [1, 0, 0])
    assert rows.domain is not None
    np.testing.assert_allclose(rows.domain.lower, rows.x.amin(0), rtol=1e-6)
    assert rows.columns is not None
    assert rows.columns.names == ("age", "job")
    assert rows.columns.frequencies[1] == pytest.approx((2 / 3, 1 / 3))
