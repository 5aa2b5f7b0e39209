"""`fit`: one call from a model and data to a trained model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from r2et.errors import InputError, ModelError
from r2et.numerics.checks import check_differentiable, check_inputs, check_labels, check_logits
from r2et.numerics.modes import evaluating
from r2et.numerics.preflight import check_module, run
from r2et.numerics.values import check_flag, check_kind, check_path, quoted
from r2et.objectives import CrossEntropy, Objective
from r2et.objectives.base import check_weights
from r2et.training.devices import runtime
from r2et.training.settings import FitResult, Retraining, Rows, Settings
from r2et.training.trainer import MakeOptimiser, MakeSchedule, Trainer


def fit(
    model: nn.Module,
    train: Rows | tuple[Tensor, Tensor],
    validation: Rows | tuple[Tensor, Tensor],
    objective: Objective | None = None,
    *,
    epochs: int = 300,
    lr: float = 1e-2,
    batch_size: int = 256,
    weight_decay: float = 0.0,
    optimiser: MakeOptimiser | None = None,
    schedule: MakeSchedule | None = None,
    patience: int | None = 30,
    threshold: float | None = None,
    retraining: Retraining | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    compile: bool = False,
    accelerator: str = "auto",
    devices: int = 1,
    strategy: str = "auto",
    progress: bool = False,
    trainer: type[Trainer] = Trainer,
) -> FitResult:
    """Train a model, in place.

    Args:
        model: maps (N, *features) to logits (N, C).
        train: inputs (N, *features) and labels (N,), as a tuple or an object with `.x` and `.y`, and with
            `.weights` (N,) of the rows if they do not all count the same (`r2et.training.WeightedRows`).
        validation: likewise; decides which epoch is kept and when to stop.
        objective: what is minimised; None = CrossEntropy.
        epochs: at most so many passes over the training data.
        lr: learning rate of Adam.
        batch_size: over all processes.
        weight_decay: of Adam (the paper's WD).
        optimiser: makes another optimiser from the parameters, e.g. `lambda p: torch.optim.SGD(p, lr=0.1)`.
        schedule: makes a learning-rate schedule from the optimiser; it is stepped once an epoch.
        patience: stop after so many epochs without a lower validation loss; None = never.
        threshold: keep the last epoch whose validation AUC reaches this (B.1.2); None = keep the epoch with the
            lowest validation loss.
        retraining: retrain from a vanilla model whose ranking is to be kept (App. B.2.5).
        seed: of the order of the samples, random directions and dropout.
        checkpoint: a folder; the run is saved there after each epoch.
        resume: continue the run in that folder if there is one, bit for bit on the same machine.
        compile: compile the whole training step; falls back to eager with a warning that says why.
        accelerator: "auto", "cpu", "cuda" (or "gpu"), "mps".
        devices: how many processes; several need the extra `processes` (Lightning Fabric).
        strategy: "ddp" for several processes; names are those of Fabric.
        progress: show a progress bar.
        trainer: a subclass of Trainer with other steps.

    >>> x = torch.randn(64, 5)
    >>> y = (x[:, 0] > 0).long()
    >>> result = fit(torch.nn.Linear(5, 2), (x[:48], y[:48]), (x[48:], y[48:]), epochs=3)
    >>> len(result.history), result.stopped
    (3, 'epochs')
    """
    settings = Settings(
        epochs=epochs,
        lr=lr,
        batch_size=batch_size,
        weight_decay=weight_decay,
        patience=patience,
        threshold=threshold,
        seed=seed,
        compile=compile,
        progress=progress,
    )
    objective = CrossEntropy() if objective is None else objective
    check_kind("objective", objective, Objective, "r2et.objectives.R2ET(k=8)")
    if retraining is not None:
        check_kind("retraining", retraining, Retraining, "r2et.training.Retraining(vanilla)")
    if not isinstance(trainer, type) or not issubclass(trainer, Trainer):
        raise InputError(f"trainer must be a subclass of r2et.training.Trainer, got {quoted(trainer)}")
    _check_makers({"optimiser": optimiser, "schedule": schedule})
    check_flag("resume", resume)
    if checkpoint is not None:
        check_path("checkpoint", checkpoint)
    rows = [as_rows(part, name) for part, name in ((train, "train"), (validation, "validation"))]
    classes = _check_trainable(model, rows[0].x[:2])
    for part in rows:
        check_labels(part.y, len(part.x), classes)
    if resume and checkpoint is None:
        raise InputError("resume=True needs checkpoint=, the folder of the run to continue")
    place = runtime(accelerator=accelerator, devices=devices, strategy=strategy)
    loop = trainer(
        model,
        rows[0],
        rows[1],
        objective,
        settings,
        optimiser=optimiser,
        schedule=schedule,
        retraining=retraining,
        folder=None if checkpoint is None else Path(checkpoint),
        resume=resume,
    )
    result: FitResult = place.launch(loop.run)
    return result


@dataclass(frozen=True)
class _Pair:
    x: Tensor
    y: Tensor


def _check_makers(makers: Mapping[str, object]) -> None:
    examples = {
        "optimiser": "lambda parameters: torch.optim.SGD(parameters, lr=0.1)",
        "schedule": "lambda optimiser: torch.optim.lr_scheduler.StepLR(optimiser, 10)",
    }
    for name, maker in makers.items():
        if maker is not None and not callable(maker):
            raise InputError(f"{name} must be a function such as {examples[name]}, got {quoted(maker)}")


def check_runs(model: nn.Module, x: Tensor) -> Tensor:
    """The logits (N, C) of a few inputs x (N, *features) in evaluation mode; a ModelError if there are none.

    >>> check_runs(nn.Linear(5, 2), torch.zeros(1, 5)).shape
    torch.Size([1, 2])
    """
    device = next((parameter.device for parameter in model.parameters()), x.device)
    with evaluating(model), torch.enable_grad():
        logits = run(model, x.to(device))
    check_logits(logits, len(x))
    return logits


def _check_trainable(model: nn.Module, x: Tensor) -> int:
    """Fail early on a model that cannot be trained on these inputs; its number of classes."""
    check_module(model)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ModelError(f"{type(model).__name__} has no parameters that can be trained (requires_grad)")
    logits = check_runs(model, x)
    check_differentiable(logits)
    return int(logits.shape[1])


def as_rows(part: Rows | tuple[Tensor, Tensor], name: str) -> Rows:
    """Inputs and labels, however they came, checked; the name is for error messages."""
    rows: Any = part
    if isinstance(part, tuple | list) and len(part) == 2:
        rows = _Pair(*part)
    if not hasattr(rows, "x") or not hasattr(rows, "y"):
        raise InputError(f"{name} must be (x, y), or an object with .x and .y, got {quoted(part)}")
    check_inputs(rows.x, f"{name}.x")
    check_labels(rows.y, len(rows.x))
    weights: Tensor | None = getattr(rows, "weights", None)
    if weights is not None:
        check_weights(weights, len(rows.x))
    found: Rows = rows
    return found
