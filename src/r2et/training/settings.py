"""What goes into a training run and what comes out of it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, nn

from r2et.explainers import Explainer, Gradient
from r2et.numerics.checks import check_inputs, check_labels
from r2et.numerics.values import (
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_positive,
    check_seed,
    check_weight,
)
from r2et.objectives.base import check_weights

if TYPE_CHECKING:
    import pandas as pd


class Rows(Protocol):
    """Anything with inputs `x` (N, *features) and labels `y` (N,)."""

    @property
    def x(self) -> Tensor:
        """Inputs (N, *features)."""

    @property
    def y(self) -> Tensor:
        """Class labels, int64 (N,)."""


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Rows that do not all count the same in the classification loss. Regularisers count every row once.

    Args:
        x: inputs (N, *features).
        y: class labels, int64 (N,).
        weights: of the rows (N,), with mean 1 if the loss is to keep its scale; None = all are 1.
    """

    x: Tensor = field(repr=False)
    y: Tensor = field(repr=False)
    weights: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_inputs(self.x)
        check_labels(self.y, len(self.x))
        if self.weights is not None:
            check_weights(self.weights, len(self.x))


class BatchWeight(float):
    """The weight of a process's share of a batch, and with it the weights of its rows (N,) if they have any."""

    rows: Tensor | None = None

    @classmethod
    def of(cls, share: float, rows: Tensor | None) -> "BatchWeight":
        """Both in one."""
        made = cls(share)
        made.rows = rows
        return made


@dataclass(frozen=True)
class Retraining:
    """Retrain a model while its ranking is to be kept (App. B.2.5).

    Args:
        reference: the vanilla model; it is copied and frozen.
        k: size of the salient set that is compared.
        min_precision: stop when the mean P@k between the reference's and the model's validation rankings falls
            below this.
        max_auc_drop: stop when the validation AUC falls this far below the reference's.
        explainer: whose rankings are compared.
        freeze_statistics: keep the running statistics of BatchNorm layers and use them in the classification loss
            too. The regularisers use them anyway, and with the batch's own in the loss a model can please each in
            its own mode: accurate in training, and wrecked in evaluation.
    """

    reference: nn.Module = field(repr=False)
    k: int = 8
    min_precision: float = 0.7
    max_auc_drop: float = 0.02
    explainer: Explainer = field(default_factory=Gradient)
    freeze_statistics: bool = True

    def __post_init__(self) -> None:
        check_kind("reference", self.reference, nn.Module, "a trained torch.nn.Module")
        check_count("k", self.k)
        check_number("min_precision", self.min_precision, 0.0, 1.0)
        check_number("max_auc_drop", self.max_auc_drop, 0.0, 1.0)
        check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        check_flag("freeze_statistics", self.freeze_statistics)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train; `fit` documents each of them."""

    epochs: int = 300
    lr: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 0.0
    patience: int | None = 30
    threshold: float | None = None
    seed: int = 0
    compile: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_count("batch_size", self.batch_size)
        check_positive("lr", self.lr)
        if self.patience is not None:
            check_count("patience", self.patience)
        check_weight("weight_decay", self.weight_decay)
        if self.threshold is not None:
            check_number("threshold", self.threshold)
        check_seed(self.seed)
        for name in ("compile", "progress"):
            check_flag(name, getattr(self, name))


@dataclass(frozen=True)
class FitResult:
    """A trained model and how it got there.

    Attributes:
        model: with the weights of the selected epoch, in evaluation mode.
        records: one dict an epoch; `history` is the same as a frame.
        selected_epoch: the epoch whose weights were kept (from 1).
        auc: the validation AUC of that epoch.
        passed: whether that AUC reached the threshold (True without one).
        stopped: why training ended: "epochs", "patience", "ranking", "auc" or "diverged".
    """

    model: nn.Module
    records: list[dict[str, float]] = field(repr=False)
    selected_epoch: int
    auc: float
    passed: bool
    stopped: str

    @property
    def history(self) -> "pd.DataFrame":
        """One row an epoch: training loss and its parts, validation loss, AUC and parts, seconds."""
        import pandas as pd

        return pd.DataFrame(self.records)


@dataclass
class Progress:
    """What a resumed run needs besides weights and optimiser: where it stands and what it has seen."""

    epoch: int = 0
    records: list[dict[str, float]] = field(default_factory=list)
    best_loss: float = float("inf")
    best_loss_epoch: int = 0
    selected_epoch: int = 0
    selected_auc: float = -1.0
    passed: bool = False
    stopped: str = ""
