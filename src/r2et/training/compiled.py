"""One compiled graph for loss and parameter gradients of a whole training step.

A compiled *model* cannot be differentiated twice. So the step as a whole is traced instead: the loss, the
gradients of the explanation inside of it, and the gradients of the loss become one flat graph, which is then
compiled.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from r2et.objectives import Loss, Objective


class CannotCompileError(RuntimeError):
    """Why a training step cannot be compiled, in words."""


class CompiledStep:
    """Evaluates an objective and sets the gradients of the parameters, one graph for each shape of batch."""

    def __init__(self, objective: Objective, model: nn.Module) -> None:
        if any(True for _ in model.buffers()):
            raise CannotCompileError("the model has buffers (BatchNorm?) that a traced step would not update")
        self.objective, self.model = objective, model
        # frozen parameters stay where they are
        self.names = [name for name, value in model.named_parameters() if value.requires_grad]
        self.graphs: dict[Any, tuple[Callable[..., list[Tensor]], list[str], list[int]]] = {}

    def __call__(self, x: Tensor, y: Tensor, step: int) -> Loss:
        """The loss of a batch; `.grad` of every parameter is set to its gradient."""
        parameters = [value for value in self.model.parameters() if value.requires_grad]
        values = [parameter.detach() for parameter in parameters]
        key = (tuple(x.shape), x.dtype, self.objective.active(step))
        if key not in self.graphs:
            self.graphs[key] = self._trace(values, x, y, step)
        graph, names, used = self.graphs[key]
        with torch.no_grad():
            total, *rest = graph(values, x, y)
        for parameter in parameters:
            parameter.grad = None
        for index, gradient in zip(used, rest[len(names) :], strict=True):
            parameters[index].grad = gradient
        return Loss(total, dict(zip(names, rest, strict=False)))

    def _trace(
        self, values: list[Tensor], x: Tensor, y: Tensor, step: int
    ) -> tuple[Callable[..., list[Tensor]], list[str], list[int]]:
        names: list[str] = []
        used: list[int] = []

        def whole_step(values: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
            with torch.enable_grad():
                parameters = [value.detach().requires_grad_() for value in values]
                model = _Functional(self.model, dict(zip(self.names, parameters, strict=True)))
                loss = self.objective.evaluate(model, x, y, generator=None, step=step)
                gradients = torch.autograd.grad(loss.total, parameters, allow_unused=True)
            names[:] = list(loss.parts)
            # without a gradient, not with a zero one: an optimiser leaves the first alone and decays the second
            used[:] = [index for index, gradient in enumerate(gradients) if gradient is not None]
            return [loss.total.detach(), *loss.parts.values(), *(gradients[index] for index in used)]

        try:
            graph = make_fx(whole_step)(values, x, y)
            compiled = torch.compile(graph)
            with torch.no_grad():
                compiled(values, x, y)
        except Exception as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise CannotCompileError(f"{type(self.objective).__name__} cannot be traced: {reason}") from error
        return compiled, names, used


class _Functional(nn.Module):
    """The model with its parameters replaced; its modules stay visible to what inspects them."""

    def __init__(self, model: nn.Module, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        self.model = model
        self.replacements = parameters
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = functional_call(self.model, self.replacements, (x,))
        return output
