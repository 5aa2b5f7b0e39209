"""`fit`: one call from a model and data to a trained model."""

from pathlib import Path

import torch
from torch import Tensor, nn

from r2et.errors import InputError, ModelError
from r2et.numerics.checks import check_differentiable, check_logits, check_outcomes
from r2et.numerics.modes import evaluating
from r2et.numerics.preflight import check_module, run
from r2et.numerics.values import check_flag, check_kind, check_path, quoted
from r2et.objectives import CrossEntropy, Objective
from r2et.objectives.objective import check_batch
from r2et.training.batches import TrainingRows, as_rows
from r2et.training.devices import runtime
from r2et.training.settings import FitResult, Retraining, Settings
from r2et.training.trainer import Trainer


def fit(
    model: nn.Module,
    train: TrainingRows | tuple[Tensor, Tensor],
    validation: TrainingRows | tuple[Tensor, Tensor],
    objective: Objective | None = None,
    *,
    settings: Settings | None = None,
    retraining: Retraining | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    trainer: type[Trainer] = Trainer,
) -> FitResult:
    """Train a model, in place.

    Args:
        model: maps (N, *features) to logits (N, C), or to one output (N, 1) that predicts a number.
        train: inputs (N, *features) and labels (N,), class numbers or floating-point numbers, as a tuple or an
            object with `.x` and `.y`; with `.weights` (N,) if the rows do not all count the same
            (`r2et.training.WeightedRows`), and with `.redraw(generator)` if every epoch is to see others.
        validation: likewise, but never redrawn; decides which epoch is kept and when to stop.
        objective: what is minimised; None = CrossEntropy, which for a model of one output is the squared error.
        settings: how to train: epochs, learning rate, seed, device and the rest; None = `Settings()`.
        retraining: retrain from a vanilla model whose ranking is to be kept (App. B.2.5).
        checkpoint: a folder; the run is saved there after each epoch.
        resume: continue the run in that folder if there is one, bit for bit on the same machine.
        trainer: a subclass of Trainer with other steps.

    >>> x = torch.randn(64, 5)
    >>> y = (x[:, 0] > 0).long()
    >>> result = fit(torch.nn.Linear(5, 2), (x[:48], y[:48]), (x[48:], y[48:]), settings=Settings(epochs=3))
    >>> len(result.history), result.stopped
    (3, 'epochs')
    """
    settings = Settings() if settings is None else settings
    objective = CrossEntropy() if objective is None else objective
    _check_kinds(objective, settings, retraining, trainer)
    folder = _run_folder(checkpoint, resume=resume)
    rows = [as_rows(part, name) for part, name in ((train, "train"), (validation, "validation"))]
    outputs = _check_trainable(model, rows[0].x[:2])
    for part in rows:
        check_outcomes(part.y, len(part.x), outputs)
        if outputs == 1:
            check_batch(part.y, len(part.x), part.x.new_zeros(1, 1))
    objective.check_rows(rows[0].x)
    place = runtime(accelerator=settings.accelerator, devices=settings.devices, strategy=settings.strategy)
    loop = trainer(
        model, rows[0], rows[1], objective, settings, retraining=retraining, folder=folder, resume=resume
    )
    result: FitResult = place.launch(loop.run)
    return result


def _check_kinds(objective: object, settings: object, retraining: object, trainer: object) -> None:
    check_kind("objective", objective, Objective, "r2et.objectives.R2ET(k=8)")
    check_kind("settings", settings, Settings, "r2et.training.Settings(epochs=40)")
    if retraining is not None:
        check_kind("retraining", retraining, Retraining, "r2et.training.Retraining(vanilla)")
    if not isinstance(trainer, type) or not issubclass(trainer, Trainer):
        raise InputError(f"trainer must be a subclass of r2et.training.Trainer, got {quoted(trainer)}")


def _run_folder(checkpoint: str | Path | None, *, resume: bool) -> Path | None:
    check_flag("resume", resume)
    if checkpoint is not None:
        check_path("checkpoint", checkpoint)
        return Path(checkpoint)
    if resume:
        raise InputError("resume=True needs checkpoint=, the folder of the run to continue")
    return None


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
    """Fail early on a model that cannot be trained on these inputs; its number of outputs."""
    check_module(model)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trainable:
        raise ModelError(f"{type(model).__name__} has no parameters that can be trained (requires_grad)")
    logits = check_runs(model, x)
    check_differentiable(logits)
    return int(logits.shape[1])
