"""Code that a file names: imported only if it is r2et's, an installed package's, or named by the caller too."""

import json

import pytest
import torch

import r2et
from r2et.errors import TrustError
from r2et.explainers import EXPLAINERS
from r2et.predictors import open_model
from tests.estimator.frames import QUICK, mixed
from tests.test_cli import Run

CODE = """
from dataclasses import dataclass
from pathlib import Path

import torch

from r2et.explainers import Gradient
from r2et.objectives import CrossEntropy

Path("imported").touch()


class Net(torch.nn.Linear):
    def __init__(self, features, classes):
        super().__init__(features, classes)

    @property
    def architecture(self):
        return {"name": "own_code:Net", "features": self.in_features, "classes": self.out_features}


@dataclass(frozen=True, kw_only=True)
class Half(Gradient):
    share: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Own(CrossEntropy):
    pass
"""


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """A module of one's own in the current folder; the file that is there once it was imported."""
    (tmp_path / "own_code.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "imported"


def saved(folder, **information):
    return r2et.save_model(r2et.models.Linear(30, 2), folder, **information)


def rewritten(path, change) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_model_of_ones_own_class(imported):
    path = saved("net")
    rewritten(path, lambda record: record["architecture"].update(name="own_code:Net"))
    with pytest.raises(TrustError, match=r"the file names the model 'own_code:Net'.* pass trust="):
        r2et.checkpoints.load_model("net")
    assert not imported.exists()
    model, _ = r2et.checkpoints.load_model("net", trust=["own_code:Net"])
    assert type(model).__name__ == "Net"
    assert model.weight.device == torch.device("cpu")
    again, _ = r2et.checkpoints.load_model("net", trust=[type(model)])
    assert torch.equal(again.weight, model.weight)
    r2et.save_model(model, "again")
    assert type(r2et.checkpoints.load_model("again", trust=[type(model)])[0]) is type(model)


def test_a_model_inside_of_a_model(imported):
    inner = r2et.models.Linear(4, 3)
    path = r2et.save_model(r2et.models.Siamese(inner), "net")
    rewritten(path, lambda record: record["architecture"]["embedding"].update(name="own_code:Net"))
    with pytest.raises(TrustError, match="the model 'own_code:Net'"):
        r2et.checkpoints.load_model("net")
    assert not imported.exists()
    assert type(r2et.checkpoints.load_model("net", trust=["own_code:Net"])[0].embedding).__name__ == "Net"


def test_an_explainer(imported, capsys):
    saved("net", data="breast-cancer", explainer={"name": "own_code:Half", "share": 0.25})
    with pytest.raises(TrustError, match="the explainer 'own_code:Half'"):
        open_model("net")
    refused = Run(capsys, "attack", "net", "--attack", "noise", "--limit", "3").error()
    assert "--trust own_code:Half" in refused
    assert not imported.exists()
    assert open_model("net", trust=["own_code:Half"]).explainer.share == 0.25
    options = ["--attack", "noise", "--limit", "3", "--json", "--trust", "own_code:Half"]
    (row,) = Run(capsys, "attack", "net", *options).json()["attacks"]
    assert "Half(" in row["settings"]
    explainer = EXPLAINERS.create("own_code:Half")
    assert EXPLAINERS.restore(EXPLAINERS.describe(explainer), trust=[type(explainer)]) == explainer


def test_a_data_set(imported, capsys):
    saved("net", data="own_code:people")
    with pytest.raises(TrustError, match="the data set 'own_code:people'"):
        open_model("net")
    assert "the data set 'own_code:people'" in Run(capsys, "audit", "net", "--limit", "3").error()
    assert not imported.exists()


def test_the_objective_and_the_method_of_a_classifier(imported):
    frame, labels = mixed(60)
    r2et.StableClassifier(**QUICK | {"method": "vanilla"}).fit(frame, labels).save("saved")
    for key in ("objective", "method"):
        rewritten(
            imported.parent / "saved" / "checkpoint.json",
            lambda record, key=key: record["information"]["parameters"].update(
                {"objective": None, "method": "vanilla", key: "own_code:Own"}
            ),
        )
        for load in (r2et.StableClassifier.load, open_model):
            with pytest.raises(TrustError, match="the objective 'own_code:Own'"):
                load("saved")
        assert not imported.exists()
        fitted = r2et.StableClassifier.load("saved", trust=["own_code:Own"])
        assert getattr(fitted, key) == "own_code:Own"
        assert fitted.fit(frame, labels).predict(frame).shape == (60,)
        assert imported.exists()
        imported.unlink()
        # it stays imported; the next turn must find it unknown
        import sys

        del sys.modules["own_code"]


def test_an_object_of_ones_own_comes_back(imported):
    from r2et.objectives import OBJECTIVES

    frame, labels = mixed(60)
    own = OBJECTIVES.create("own_code:Own")
    fitted = r2et.StableClassifier(**QUICK | {"method": "vanilla"}, objective=own).fit(frame, labels)
    fitted.save("saved")
    with pytest.raises(TrustError, match="the objective 'own_code:Own'"):
        r2et.StableClassifier.load("saved")
    assert r2et.StableClassifier.load("saved", trust=[type(own)]).objective == own
    by_class = r2et.StableClassifier(**QUICK | {"method": "vanilla"}, objective=type(own)).fit(frame, labels)
    by_class.save("class")
    assert r2et.StableClassifier.load("class", trust=[type(own)]).objective == "own_code:Own"
