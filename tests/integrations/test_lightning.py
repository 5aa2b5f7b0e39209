"""The callback adds to any module's loss what a plain loop would, and leaves the module as it was."""

import warnings

import lightning
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import r2et
from r2et.integrations.lightning import StableExplanations
from tests.integrations.table import OBJECTIVE, network, plain_loop, rows, same_weights


class Module(lightning.LightningModule):
    def __init__(self, returns: str = "tensor") -> None:
        super().__init__()
        self.network, self.returns = network(), returns

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, batch_index):
        x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
        loss = F.cross_entropy(self(x), y)
        self.log("own", loss)
        return {"tensor": loss, "dict": {"loss": loss, "more": 1}, "nothing": None}[self.returns]

    def validation_step(self, batch, batch_index):
        self.log("validation", F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Named(torch.utils.data.Dataset):
    def __init__(self) -> None:
        self.x, self.y = rows()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


def train(module, *callbacks, data=None, steps: int = 3, validation: bool = False):
    warnings.simplefilter("ignore")
    trainer = lightning.Trainer(
        max_epochs=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=list(callbacks),
        limit_val_batches=1.0 if validation else 0,
    )
    data = data or TensorDataset(*rows())
    trainer.fit(module, DataLoader(data, batch_size=64), DataLoader(data, batch_size=64) if validation else None)
    return trainer


@pytest.fixture
def expected():
    model = network()
    plain_loop(model, *rows(), steps=3)
    return model


@pytest.mark.parametrize("returns", ["tensor", "dict"])
def test_the_weights_are_those_of_a_plain_loop(expected, returns):
    module = Module(returns)
    trainer = train(module, StableExplanations(OBJECTIVE), validation=True)
    same_weights(module, expected)
    assert {"own", "r2et/gap", "r2et/curvature", "validation"} <= set(trainer.callback_metrics)


def test_without_the_callback_they_are_not(expected):
    module = Module()
    train(module)
    with pytest.raises(AssertionError):
        same_weights(module, expected)


def test_inputs_and_network_can_be_named(expected):
    module = Module()
    callback = StableExplanations(
        OBJECTIVE, inputs=lambda batch: batch["x"], model=lambda module: module.network, seed=0
    )
    train(module, callback, data=Named())
    same_weights(module, expected)


def test_the_module_is_as_it_was_afterwards():
    module = Module()
    train(module, StableExplanations(OBJECTIVE), steps=1)
    assert "training_step" not in module.__dict__
    trained = network()
    plain_loop(trained, *rows(), steps=1)
    same_weights(module, trained)
    # a fit without the callback is plain again
    train(module, steps=1)
    twice = network()
    plain_loop(twice, *rows(), steps=2)
    with pytest.raises(AssertionError):
        same_weights(module, twice)


def test_a_skipped_step_stays_skipped():
    module = Module("nothing")
    train(module, StableExplanations(OBJECTIVE), steps=1)
    same_weights(module, network())


def test_seeds_make_random_directions_the_same():
    objective = r2et.objectives.R2ET(k=2, scale_free=True)
    found = []
    for seed in (1, 1, 2):
        module = Module()
        train(module, StableExplanations(objective, seed=seed), steps=2)
        found.append(module)
    same_weights(found[0], found[1])
    with pytest.raises(AssertionError):
        same_weights(found[0], found[2])


def test_what_it_refuses():
    with pytest.raises(r2et.errors.InputError, match="as the loss itself"):
        StableExplanations(r2et.objectives.CrossEntropy())
    with pytest.raises(r2et.errors.InputError, match=r"inputs=lambda batch: batch\['x'\]"):
        train(Module(), StableExplanations(OBJECTIVE), data=Named())

    class ByHand(Module):
        automatic_optimization = False

        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

    with pytest.raises(r2et.errors.InputError, match=r"optimises by hand.*manual_backward"):
        train(ByHand(), StableExplanations(OBJECTIVE))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"seed": -1}, "seed=-1"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"inputs": "x"}, "inputs must be a function.*'x'"),
        ({"model": 3}, "model must be a function.*3"),
    ],
)
def test_arguments_that_cannot_be_used_are_quoted(wrong, words):
    with pytest.raises(r2et.errors.InputError, match=words):
        StableExplanations(OBJECTIVE, **wrong)
