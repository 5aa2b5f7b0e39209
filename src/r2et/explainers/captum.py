"""Any captum attribution method as an explainer, with a second derivative that is right, or a refusal.

captum's own attributions are detached, or worse: differentiable with a wrong derivative and no error, because the
gradient inside of them is taken without `create_graph`. The adapter installs a gradient function that keeps the
graph, and proves the result on a small network before it lets anybody differentiate through it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.explainers.explainer import Explainer
from r2et.numerics.modes import random_states_kept
from r2et.numerics.values import check_kind, quoted
from r2et.scores import Score, score


@dataclass(frozen=True, kw_only=True)
class FromCaptum(Explainer):
    """An attribution method of captum as an explainer.

    Args:
        method: a class of `captum.attr` that is built from a forward function or a module, such as
            `captum.attr.IntegratedGradients`.
        options: keyword arguments of its `attribute`, such as `{"n_steps": 32}`.

    >>> from captum.attr import InputXGradient
    >>> model = torch.nn.Linear(2, 2, bias=False)
    >>> _ = torch.nn.init.eye_(model.weight)
    >>> FromCaptum(method=InputXGradient, reduce="signed")(model, torch.tensor([[5.0, 4.0]]))
    tensor([[ 5., -4.]])
    """

    method: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.method):
            raise InputError(
                f"method must be a class such as captum.attr.InputXGradient, got method={quoted(self.method)}"
            )
        check_kind("options", self.options, dict, '{"n_steps": 32}')

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """captum's attributions, in the shape of x."""
        # captum's own complaint about a model without gradients does not say what is wrong
        self.gradient(model, x, target, create_graph=False, logits=None)
        if create_graph:
            self.check_second_derivative(x.shape[1:])
        return self._captum(model, x, target, create_graph=create_graph)

    def _captum(self, model: nn.Module, x: Tensor, target: Tensor, *, create_graph: bool) -> Tensor:
        method = self.method(_ScoreOf(model, self.score))
        if create_graph and hasattr(method, "gradient_func"):
            method.gradient_func = _gradients_with_graph
        # methods that add noise draw it from the global states
        with random_states_kept(x.device):
            attributions: Tensor = method.attribute(x, additional_forward_args=(target,), **self.options)
        return attributions

    def check_second_derivative(self, features: torch.Size) -> None:
        """Refuse a method whose attributions cannot be differentiated correctly on inputs of this shape."""
        key = (self.method, self.score, features, repr(sorted(self.options.items())))
        if key not in _CHECKED:
            _CHECKED[key] = _derivative_error(self, features)
        error = _CHECKED[key]
        if error is not None:
            raise InputError(
                f"captum's {getattr(self.method, '__name__', self.method)} cannot be used where the "
                f"explanation is differentiated (attacks, training): {error}. Use r2et.explainers.Gradient, "
                "GradientTimesInput, SmoothGrad or IntegratedGradients, or only measure with it"
            )


class _ScoreOf(nn.Module):
    """The explained scalar as a module, for methods that want one.

    The target comes as an argument, so that captum repeats it the way it repeats rows.
    """

    def __init__(self, model: nn.Module, name: Score) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        return score(self.name, self.model(x), target)


def _gradients_with_graph(
    forward_fn: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    target_ind: Any = None,
    additional_forward_args: Any = None,
    **_: Any,
) -> tuple[Tensor, ...]:
    with torch.enable_grad():
        value = forward_fn(*inputs, *(additional_forward_args or ())).sum()
        return torch.autograd.grad(value, inputs, create_graph=True)


#: what the check of a method found; building and differentiating the small network each time would be slow
_CHECKED: dict[tuple[object, ...], str | None] = {}


def _derivative_error(explainer: FromCaptum, features: torch.Size) -> str | None:
    """What is wrong with the derivative of a method's attributions on a small network; None = nothing.

    The network has a ReLU with curvature behind it, because some methods replace the derivative of ReLU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = (
            nn.Linear(features.numel(), 6),
            nn.Tanh(),
            nn.Linear(6, 6),
            nn.ReLU(),
            nn.Linear(6, 6),
            nn.Tanh(),
        )
        model = nn.Sequential(nn.Flatten(), *layers, nn.Linear(6, 2)).double()
        x, direction = torch.randn(2, 3, *features, dtype=torch.float64)
    target = torch.tensor([0, 1, 0])

    def attributions(point: Tensor, *, create_graph: bool) -> Tensor:
        return explainer._captum(model, point, target, create_graph=create_graph)

    try:
        point = x.clone().requires_grad_()
        value = attributions(point, create_graph=True)
        if not value.requires_grad:
            return "its attributions are detached from the input"
        mix = torch.linspace(-1, 1, value.numel(), dtype=torch.float64).reshape(value.shape)
        analytic = (torch.autograd.grad((value * mix).sum(), point)[0] * direction).sum()
        step = 1e-6
        ahead, behind = (
            (attributions((x + sign * step * direction).requires_grad_(), create_graph=False).detach() * mix).sum()
            for sign in (1, -1)
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    numeric = (ahead - behind) / (2 * step)
    off = abs(float(analytic - numeric)) / max(abs(float(numeric)), 1e-12)
    return None if off < 1e-4 else f"its second derivative is off by {off:.0%} on a test network"
