"""The concept-based explanation of Sec. 6.2: the activations of a named layer."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.explainers.explainer import EXPLAINERS, Explainer, Reduce
from r2et.numerics.twins import twin
from r2et.numerics.values import check_text, suggestion


@EXPLAINERS.register("activation")
@dataclass(frozen=True, kw_only=True)
class Activation(Explainer):
    """The output of one layer: which neurons are stimulated most.

    A two-input model runs the layer on each of its inputs; both outputs are explained.

    Args:
        layer: the layer's name, as in `model.named_modules()`.
        reduce: "signed" by default: the most stimulated neurons are the ones with the largest output.

    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Softplus(), torch.nn.Linear(4, 2))
    >>> Activation(layer="1")(model, torch.zeros(5, 3)).shape
    torch.Size([5, 4])
    """

    layer: str
    reduce: Reduce = "signed"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text("layer", self.layer)

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """The layer's output (N, ...), or (N, 2, ...) for a two-input model."""
        seen: list[object] = []

        def remember(_: nn.Module, __: object, output: object) -> None:
            # a copy, because an in-place layer behind this one would overwrite what it gave
            seen.append(output.clone() if isinstance(output, Tensor) else output)

        # a hook of the model itself would be run by other threads as well
        own = twin(model)
        handle = find_layer(own, self.layer).register_forward_hook(remember)
        try:
            own(x)
        finally:
            handle.remove()
        return self._arrange(seen, len(x))

    def _arrange(self, seen: list[object], rows: int) -> Tensor:
        outputs = [output for output in seen if isinstance(output, Tensor)]
        if not seen or len(outputs) < len(seen):
            raise InputError(f"layer {self.layer!r} did not run, or does not return one tensor")
        if len(outputs) == self.inputs == 2:
            return torch.stack(outputs, dim=1)
        output = outputs[0]
        if len(outputs) == 1 and self.inputs == 2 and output.shape[0] == 2 * rows:
            # both inputs were embedded in one batch, the first input's rows first
            return output.reshape(2, rows, *output.shape[1:]).transpose(0, 1)
        if len(outputs) != 1 or output.shape[0] != rows:
            raise InputError(
                f"layer {self.layer!r} ran {len(outputs)} times with outputs of shape "
                f"{[tuple(o.shape) for o in outputs]} for {rows} rows and inputs={self.inputs}"
            )
        return output


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """The layer of that name; an unknown name is an error with the closest match."""
    layers: dict[str, nn.Module] = {_bare(layer): module for layer, module in model.named_modules() if layer}
    if name not in layers:
        raise InputError(f"unknown layer {name!r}{suggestion(name, list(layers))}")
    return layers[name]


def _bare(name: str) -> str:
    """A layer's name without the prefixes that wrappers for devices and processes put in front."""
    for prefix in ("_forward_module.", "_original_module.", "module."):
        name = name.removeprefix(prefix)
    return name
