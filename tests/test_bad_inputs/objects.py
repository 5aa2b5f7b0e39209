"""Good things for the table of bad ones: every row has one argument that is wrong, and the rest from here."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

import r2et
from r2et import attacks, data, metrics, objectives
from r2et.data.pairs import Pool
from r2et.errors import InputError

NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Row:
    """One bad call.

    Args:
        name: "public.name: what is wrong".
        call: what a person might write.
        words: that the sentence must hold, the bad input among them.
        family: the kind of error.
    """

    name: str
    call: Callable[[], object]
    words: tuple[str, ...]
    family: type[Exception] = InputError

    @property
    def target(self) -> str:
        """The public name that is called."""
        return self.name.split(":")[0]


def row(name: str, call: Callable[[], object], *words: str, family: type[Exception] = InputError) -> Row:
    """A row; the words are given one after the other."""
    return Row(name, call, words, family)


def _network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).eval()


NET = _network()
X = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 0, 1, 1])
SCORES = X.abs()
WITH_NAN = torch.where(torch.arange(6) == 2, NAN, X)
LOGITS = NET(X).detach()
ROWS = (X, Y)
TABLE = X.numpy().astype(float)
FRAME = pd.DataFrame(TABLE, columns=list("abcdef"))
ALIKE = FRAME.set_axis(list("abcdea"), axis=1)
GRAPHS = np.ones((20, 4, 4))
LABELS = [0, 1] * 10

ER = attacks.ERAttack(k=2, radius=0.1, steps=1)
RESULT = ER(NET, X)
CERTIFICATE = r2et.certificates.Certificate(
    torch.tensor([[0.5, 1.0]]), "deterministic", "Gradient of the log-odds"
)
SPLIT = data.Split(X, Y)
IMAGE = data.ImageLayout((1, 2, 3), (0.5,), (0.5,))
GRAPH = data.GraphLayout(("a", "b", "c", "d"), torch.zeros(6), torch.ones(6))
POOL = Pool(X, Y, torch.arange(5))
PAIRS = torch.stack([X, X], 1)


def attack(**wrong: object) -> object:
    """An attack on good inputs."""
    return attacks.ERAttack(**{"k": 2, "radius": 0.1, "steps": 1} | wrong)


def dataset(**wrong: object) -> data.Dataset:
    """A small data set."""
    good = {"train": SPLIT, "validation": SPLIT, "test": SPLIT, "domain": r2et.Domain(), "k": 2}
    names = {"name": "mine", "feature_names": tuple("abcdef"), "class_names": ("no", "yes")}
    return data.Dataset(**good | names | wrong)


def fitted(**wrong: object) -> object:
    """A training of one epoch."""
    settings = {"epochs": 1, "accelerator": "cpu"}
    settings |= {name: wrong.pop(name) for name in list(wrong) if hasattr(r2et.training.Settings, name)}
    return r2et.fit(NET, ROWS, ROWS, settings=r2et.training.Settings(**settings), **wrong)


def audited(x: object = X, y: object = Y, **wrong: object) -> object:
    """The quickest audit there is."""
    return r2et.audit(NET, x, y, **{"k": 2, "radii": [0.1], "budget": "fast", "steps": 1} | wrong)


def classifier(**wrong: object) -> object:
    """A classifier that is fitted on a table of ten rows; scikit-learn checks parameters in fit."""
    table, labels = np.tile(TABLE, (2, 1)), np.tile(Y.numpy(), 2)
    x, y, weight = wrong.pop("X", table), wrong.pop("y", labels), wrong.pop("sample_weight", None)
    quick = {"k": 2, "method": "vanilla", "epochs": 1, "random_state": 0}
    return r2et.StableClassifier(**quick | wrong).fit(x, y, sample_weight=weight)


def reasons(X: object = None, *, number: bool = False, **wrong: object) -> object:
    """Reasons of a fitted estimator for its own rows."""
    quick = {"k": 2, "method": "linear", "epochs": 1, "random_state": 0}
    kind = r2et.StableRegressor if number else r2et.StableClassifier
    table, labels = np.tile(TABLE, (2, 1)), np.tile(Y.numpy(), 2)
    model = kind(**quick).fit(table, np.linspace(0.0, 1.0, len(labels)) if number else labels)
    return model.reasons(table if X is None else X, **wrong)


def objective(subject: objectives.Objective, x: Tensor = X, y: Tensor = Y, **wrong: object) -> object:
    """The loss of one batch."""
    return subject(NET, x, y, **wrong)


def faithful(**wrong: object) -> object:
    """Faithfulness of the explanations of good inputs."""
    return metrics.faithfulness(NET, **{"x": X} | wrong)
