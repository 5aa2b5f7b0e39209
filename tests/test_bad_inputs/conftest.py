"""What is made once for both tables: a table, models of it, records, and files that are none."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import r2et
from r2et.checkpoints import save_model
from r2et.estimator import StableClassifier
from r2et_bench.records import FORMAT, VERSION
from tests.little_effort import quick_audits

__all__ = ["quick_audits"]

NETS = """
import sys
import torch
from torch import nn

def good():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Softplus(), nn.Linear(4, 2))

def exits():
    sys.exit()

def exits_with_success():
    raise SystemExit(0)

def fails():
    raise KeyError("the data base")

def recurses():
    return recurses()

def runs_out():
    raise MemoryError

def returns_text():
    return "a model"

NOT_CALLABLE = 3

class Broken(nn.Module):
    def __init__(self, how="fails", after=0):
        super().__init__()
        self.net, self.how, self.left = good(), how, after
    def forward(self, x):
        self.left -= 1
        if self.left < 0:
            if self.how == "exits":
                sys.exit(0)
            if self.how == "text":
                return "logits"
            if self.how == "nan":
                return self.net(x) * float("nan")
            if self.how == "probabilities":
                return self.net(x).softmax(1)
            if self.how == "one column":
                return self.net(x)[:, :1]
            raise KeyError("the weather")
        return self.net(x)
"""


def people(rows: int = 40) -> pd.DataFrame:
    drawn = np.random.default_rng(0)
    frame = pd.DataFrame({"age": drawn.normal(40, 9, rows).round(1), "pay": drawn.normal(9, 2, rows).round(2)})
    frame["visits"] = drawn.integers(0, 9, rows)
    frame["bought"] = np.where(frame["age"] + drawn.normal(0, 3, rows) > 40, "yes", "no")
    return frame


@pytest.fixture(scope="session")
def classifier(tmp_path_factory) -> Path:
    """A folder with a fitted table model."""
    frame = people()
    folder = tmp_path_factory.mktemp("bad") / "model"
    fitted = StableClassifier(k=2, method="vanilla", hidden=(3,), epochs=2, random_state=0)
    fitted.fit(frame[["age", "pay", "visits"]], frame["bought"]).save(folder)
    return folder


@pytest.fixture(scope="session")
def network(tmp_path_factory) -> Path:
    """A folder with a network on breast-cancer."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("bad") / "net"
    save_model(r2et.models.MLP(30, 2, (3,), "softplus"), folder, data="breast-cancer", k=8)
    return folder


@pytest.fixture(scope="session")
def records(tmp_path_factory) -> Path:
    """A folder of records with one cell."""
    folder = tmp_path_factory.mktemp("bad") / "records"
    (folder / "smoke").mkdir(parents=True)
    shared = {"format": FORMAT, "version": VERSION}
    entry = {"name": "one", "data": "breast-cancer", "method": "vanilla", "role": "main"}
    cell = {
        **shared,
        "kind": "cell",
        "cell": {"data": "breast-cancer", "method": "vanilla", "seed": 0},
        "training": {"validation auc": 0.9, "passed": True, "threshold": None, "epochs": 2},
        "studies": {
            "prediction": {"settings": {}, "values": {"auc": 0.9}},
            "magnitude": {"settings": {}, "values": {"rank": [1, 2], "magnitude": [1.0, 0.5]}},
            "constrained": {"settings": {}, "values": {"points": [
                {"attack": "ERAttack", "weights": "qp", "sensitivity": 0.1, "precision": 0.5}
            ]}},
        },
        "timing": {"studies": {}, "training": 1.0, "seconds an epoch": 0.5},
    }  # fmt: skip
    index = {**shared, "kind": "index", "plan": "smoke", "cells": [entry]}
    for name, content in (("index", index), ("one", cell)):
        (folder / "smoke" / f"{name}.json").write_text(json.dumps(content))
    return folder
