"""How to train, and what comes out of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from r2et.errors import InputError
from r2et.explainers import Explainer, Gradient
from r2et.numerics.values import (
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_positive,
    check_seed,
    check_weight,
    quoted,
)

if TYPE_CHECKING:
    import pandas as pd

MakeOptimiser = Callable[[Iterable[nn.Parameter]], Optimizer]
MakeSchedule = Callable[[Optimizer], LRScheduler]
_MAKERS = {
    "optimiser": "lambda parameters: torch.optim.SGD(parameters, lr=0.1)",
    "schedule": "lambda optimiser: torch.optim.lr_scheduler.StepLR(optimiser, 10)",
}


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
    """How to train.

    Args:
        epochs: at most this many passes over the training data.
        lr: learning rate of Adam.
        batch_size: over all processes.
        weight_decay: of Adam (the paper's WD).
        optimiser: makes another optimiser from the parameters, e.g. `lambda p: torch.optim.SGD(p, lr=0.1)`.
        schedule: makes a learning-rate schedule from the optimiser; it is stepped once per epoch.
        patience: stop after this many epochs without a lower validation loss; None = never.
        threshold: keep the last epoch whose validation AUC (or R2) reaches this (B.1.2); None = keep the epoch
            with the lowest validation loss.
        seed: of the order of the samples, random directions and dropout.
        compile: compile the whole training step; falls back to eager with a warning that says why.
        accelerator: "auto", "cpu", "cuda" (or "gpu"), "mps".
        devices: how many processes; several need the extra `processes` (Lightning Fabric).
        strategy: "ddp" for several processes; names are those of Fabric.
        progress: show a progress bar.

    >>> Settings(epochs=40, lr=1e-3).batch_size
    256
    """

    epochs: int = 300
    lr: float = 1e-2
    batch_size: int = 256
    weight_decay: float = 0.0
    optimiser: MakeOptimiser | None = None
    schedule: MakeSchedule | None = None
    patience: int | None = 30
    threshold: float | None = None
    seed: int = 0
    compile: bool = False
    accelerator: str = "auto"
    devices: int = 1
    strategy: str = "auto"
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
        for name, flag in (("compile", self.compile), ("progress", self.progress)):
            check_flag(name, flag)
        for name, maker in (("optimiser", self.optimiser), ("schedule", self.schedule)):
            if maker is not None and not callable(maker):
                raise InputError(f"{name} must be a function such as {_MAKERS[name]}, got {quoted(maker)}")

    def identity(self) -> dict[str, float | None]:
        """What must be the same when a run is resumed; its length, its pace and its place may be others."""
        return {
            "lr": self.lr,
            "batch_size": self.batch_size,
            "weight_decay": self.weight_decay,
            "threshold": self.threshold,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class FitResult:
    """A trained model and how it got there.

    Attributes:
        model: with the weights of the selected epoch, in evaluation mode.
        records: one dict per epoch; `history` is the same as a frame.
        selected_epoch: the epoch whose weights were kept (from 1).
        auc: the validation AUC of that epoch; for a model with one output the R2, here and below.
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
        """One row per epoch: training loss and its parts, validation loss, AUC (or R2) and parts, seconds."""
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
    selected_auc: float = float("-inf")
    passed: bool = False
    stopped: str = ""
