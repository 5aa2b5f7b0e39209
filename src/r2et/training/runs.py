"""A training run in a folder: what it has reached, and under which conditions, so that it can be resumed."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from r2et.checkpoints import models as checkpoints
from r2et.domain import chosen_threat
from r2et.errors import CheckpointError
from r2et.files.reading import typed
from r2et.files.serialising import to_json
from r2et.objectives import Objective
from r2et.objectives.threatened import Threatened
from r2et.training.batches import TrainingRows, weights_of
from r2et.training.settings import Progress, Retraining, Settings

KIND = "training"


@dataclass(frozen=True)
class Parts:
    """What has a state of its own, which is saved from it and loaded into it."""

    model: nn.Module
    optimiser: Optimizer
    schedule: LRScheduler | None


def exists(folder: Path) -> bool:
    """Whether a run was saved there."""
    return (folder / f"{KIND}.json").exists()


def identity(
    settings: Settings,
    *,
    model: nn.Module,
    objective: Objective,
    optimiser: Optimizer,
    schedule: LRScheduler | None,
    retraining: Retraining | None,
    rows: Sequence[TrainingRows],
) -> dict[str, object]:
    """What must be the same for a run to be resumed, as JSON values."""
    reference = None
    if retraining is not None:
        weights = checkpoints.fingerprint(*retraining.reference.state_dict().values())
        reference = f"{retraining} of {weights}"
    return {
        "settings": settings.identity(),
        "model": repr(model),
        "objective": repr(objective),
        "domain": _domain_of(objective),
        "optimiser": type(optimiser).__name__,
        "schedule": type(schedule).__name__,
        "retraining": reference,
        "data": checkpoints.fingerprint(*(tensor for part in rows for tensor in _tensors(part))),
    }


def _domain_of(objective: Objective) -> str | None:
    """The domain and threat of an objective, if it has one, as a short text: numbers by their fingerprint."""
    if not isinstance(objective, Threatened) or objective.domain is None:
        return None
    described = to_json(objective.domain)
    digest = hashlib.sha256(described.encode()).hexdigest()[:16]
    return f"{chosen_threat(objective.threat, objective.domain)} in {digest}"


def _tensors(rows: TrainingRows) -> list[Tensor]:
    weights = weights_of(rows)
    return [rows.x, rows.y] if weights is None else [rows.x, rows.y, weights]


def save(
    folder: Path, conditions: dict[str, object], parts: Parts, selected: dict[str, Tensor], progress: Progress
) -> None:
    """Write the run as it stands; `conditions` are what `identity` says, `selected` the weights to keep so far."""
    moments, rest = checkpoints.flatten_optimiser(parts.optimiser.state_dict())
    tensors = {
        **{f"model.{name}": value for name, value in parts.model.state_dict().items()},
        **{f"selected.{name}": value.clone() for name, value in selected.items()},
        **{f"optimiser.{name}": value for name, value in moments.items()},
    }
    content = {
        "kind": KIND,
        "identity": conditions,
        "progress": progress,
        "optimiser": rest,
        "schedule": None if parts.schedule is None else parts.schedule.state_dict(),
    }
    checkpoints.write(folder, KIND, content, tensors)


def restore(folder: Path, conditions: dict[str, object], parts: Parts) -> tuple[dict[str, Tensor], Progress]:
    """Load a run into its parts; the weights to keep so far, and how far it got. Another run is refused."""
    record, tensors = checkpoints.read(folder / f"{KIND}.json")
    if record.get("kind") != KIND:
        raise CheckpointError(f"{str(folder)!r} holds {record.get('kind')!r}, not a training run")
    _check_conditions(folder, record.get("identity"), conditions)

    def part(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

    try:
        parts.model.load_state_dict(part("model."))
        parts.optimiser.load_state_dict(checkpoints.restore_optimiser(part("optimiser."), record["optimiser"]))
        if parts.schedule is not None:
            parts.schedule.load_state_dict(record["schedule"])
        progress = typed(record["progress"], Progress, "progress")
        if not progress.records:
            raise ValueError("it has no epoch")
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(f"the run in {str(folder)!r} does not fit this model: {error}") from error
    return part("selected."), progress


def _check_conditions(folder: Path, saved: object, conditions: dict[str, object]) -> None:
    for name, value in conditions.items():
        was = saved.get(name) if isinstance(saved, dict) else None
        if not isinstance(saved, dict) or was != value:
            raise CheckpointError(
                f"the run in {str(folder)!r} cannot be resumed: its {name} was {was}, now it is {value}"
            )
