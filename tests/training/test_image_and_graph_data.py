"""Every method trains and is attacked on images, pairs and graphs: on generated data, and on the real ones."""

import os
from pathlib import Path

import pytest
import torch

import r2et
from r2et.attacks import ERAttack
from r2et.data import Dataset
from r2et.recipes import find_preset, train_method
from tests.covering import covering
from tests.training.generated import few, generated_data
from tests.training.toy import same, weights

DATA = ("mnist-pairs", "cifar10", "abide", "oct")
METHODS = ("vanilla", "wd", "sp", "est-h", "at", "r2et", "r2et-mm", "r2et-no-h", "r2et-mm-no-h", "r2et-sf")
REAL = os.environ.get("R2ET_DATA")
OPTIONS = {"oct": {"size": 64}}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> dict[tuple[str, str], Dataset]:
    """The four sets, generated and, where they are, real."""
    found = {}
    with generated_data(tmp_path_factory.mktemp("generated")):
        found |= {("generated", name): r2et.data.load(name, **OPTIONS.get(name, {})) for name in DATA}
    for name in DATA if REAL else ():
        # a folder that holds some of the sets is fine
        if (Path(REAL or "") / name.removesuffix("-pairs")).is_dir():
            found["real", name] = r2et.data.load(name, **OPTIONS.get(name, {}))
    return found


@pytest.mark.parametrize(
    # files that are not everywhere are no reason to leave out others
    ("source", "name", "method"),
    [
        case
        for source in ("generated", "real")
        for case in covering(((source, name, method) for name in DATA for method in METHODS), together=1)
    ],
)
def test_a_method_trains_and_is_attacked(loaded, source, name, method):
    if (source, name) not in loaded:
        pytest.skip("R2ET_DATA does not hold it")
    data = loaded[source, name]
    train, validation = few(data.train, 8, classes=4), few(data.validation, 4, classes=2)
    preset = find_preset(data, "cpu")
    result = train_method(method, train, validation, preset=preset, epochs=1, batch_size=4, lr=1e-4)
    assert result.history.notna().all(axis=None)
    assert result.stopped == "epochs"
    # a model trained on the explanation is attacked on it
    attack = ERAttack(k=preset.k, radius=preset.radius, steps=2, explainer=preset.explainer)
    found = attack(result.model, validation.x[:2])
    n = {"mnist-pairs": (2, 784), "cifar10": (1024,), "abide": (2, 6670), "oct": (128,)}[name]
    assert found.before.shape == (2, *n)
    assert found.kept.all()
    assert ((found.precision >= 0) & (found.precision <= 1)).all()
    if method.startswith("r2et"):
        assert "validation gap" in result.history
        assert ("validation curvature" in result.history) is ("no-h" not in method)


@pytest.mark.parametrize(
    ("name", "method"),
    covering(
        (
            (name, method)
            for name in ("cifar10", "oct")
            for method in ("wd", "est-h", "at", "r2et", "r2et-mm-no-h", "r2et-sf")
        ),
        together=1,
    ),
)
def test_resnets_are_retrained_from_a_vanilla_model(loaded, name, method):
    data = loaded["generated", name]
    train, validation = few(data.train, 8, classes=4), few(data.validation, 4, classes=2)
    preset = find_preset(data)
    assert preset.retrains
    vanilla = train_method("vanilla", train, validation, preset=preset, epochs=1, batch_size=4).model
    before = weights(vanilla)
    result = train_method(method, train, validation, preset=preset, vanilla=vanilla, epochs=1, batch_size=4)
    assert same(weights(vanilla), before)
    assert not same(weights(result.model), before)
    assert "ranking kept" in result.history
    assert result.stopped == "epochs", "neither ranking nor AUC ends it early"


def test_pairs_of_graphs_are_drawn_anew_in_every_epoch(loaded):
    data = loaded["generated", "abide"]
    seen: list[torch.Tensor] = []

    class Watching(r2et.training.Trainer):
        def train_epoch(self, epoch: int) -> dict[str, float]:
            seen.append(torch.cat([batch.x for batch in self.batches(epoch)]))
            return {"loss": 0.0}

    r2et.fit(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2 * 6670, 2)),
        data.train,
        data.validation,
        settings=r2et.training.Settings(epochs=2),
        trainer=Watching,
    )
    first, second = (part[part[:, 0, 0].argsort()] for part in seen)
    assert first.shape == second.shape == data.train.x.shape
    assert not torch.equal(first, second)
