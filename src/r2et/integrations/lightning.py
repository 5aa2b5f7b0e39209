"""Lightning: a callback that trains any LightningModule for explanations that stay put."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.integrations.penalties import check_regularised, penalty
from r2et.numerics.values import check_seed, quoted
from r2et.objectives import Objective

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:  # pragma: no cover - the tests have it
    raise ImportError("r2et.integrations.lightning needs Lightning: pip install lightning") from error


class StableExplanations(Callback):
    """Adds the regularisers of an objective to the loss that `training_step` returns, and logs them.

    The module stays as it is: its own loss, optimisers and logging go on. Where a module is yours to change,
    `loss = objective(self, x, y)` in its `training_step` does the same.

    Args:
        objective: such as `r2et.objectives.R2ET(k=8, gap=0.1, curvature=0.1, scale_free=True)`.
        inputs: takes the inputs (N, *features) out of a batch; None = its first entry.
        model: takes the network that returns logits (N, C) out of the module; None = the module itself.
        seed: of random directions; None = torch's global generator.

    >>> from r2et.objectives import R2ET
    >>> StableExplanations(R2ET(k=8), inputs=lambda batch: batch["x"]).state_key
    'StableExplanations'
    """

    def __init__(
        self,
        objective: Objective,
        inputs: Callable[[Any], Tensor] | None = None,
        model: Callable[[LightningModule], nn.Module] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        check_regularised(objective)
        for name, function in (("inputs", inputs), ("model", model)):
            if function is not None and not callable(function):
                raise InputError(
                    f"{name} must be a function such as lambda batch: batch[0], got {quoted(function)}"
                )
        if seed is not None:
            check_seed(seed)
        self.objective, self.inputs, self.model, self.seed = objective, inputs, model, seed

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put a step in front of the module's own."""
        if not pl_module.automatic_optimization:
            raise InputError(
                f"{type(pl_module).__name__} optimises by hand: add "
                "r2et.integrations.penalty(objective, self, x).total to its loss before manual_backward"
            )
        own = pl_module.training_step

        def training_step(batch: Any, *rest: Any, **named: Any) -> Any:
            return self._with_penalty(own(batch, *rest, **named), batch, trainer, pl_module)

        # an attribute of the instance hides the method, until the fit ends
        pl_module.__dict__["training_step"] = training_step

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave the module as it was."""
        pl_module.__dict__.pop("training_step", None)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave the module as it was."""
        self.on_fit_end(trainer, pl_module)

    def _with_penalty(self, output: Any, batch: Any, trainer: Trainer, module: LightningModule) -> Any:
        if output is None:
            return None
        x = self.inputs(batch) if self.inputs is not None else _first(batch)
        generator = None
        if self.seed is not None:
            generator = torch.Generator(x.device).manual_seed(self.seed + trainer.global_step)
        network = module if self.model is None else self.model(module)
        added = penalty(self.objective, network, x, generator=generator, step=trainer.global_step)
        module.log_dict({f"r2et/{name}": value for name, value in added.parts.items()})
        if isinstance(output, dict):
            return {**output, "loss": output["loss"] + added.total}
        return output + added.total


def _first(batch: Any) -> Tensor:
    if isinstance(batch, list | tuple) and batch and isinstance(batch[0], Tensor):
        return batch[0]
    raise InputError(
        f"a batch of type {type(batch).__name__} does not begin with the inputs: say where they are, "
        "StableExplanations(objective, inputs=lambda batch: batch['x'])"
    )
