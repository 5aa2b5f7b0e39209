"""One look at a model before it is measured, on a few rows: what would go wrong later is said in a sentence now.

`measuring` is the door that every function goes through that measures, attacks or certifies a model: it keeps the
model as it is, and looks once, however many such functions call each other inside.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from r2et.errors import InputError, ModelError, in_words
from r2et.numerics.checks import check_logits
from r2et.numerics.modes import buffers_kept, evaluating, random_states_kept
from r2et.numerics.once import looking_once, once

#: rows that the model is looked at on
ROWS = 3
#: passes over the same rows where the first one drew random numbers: a rare dropout must show in one of them
PASSES = 64
#: logits are equal up to this share of their size: kernels for one row and for several round differently
TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-8}
#: the same on other devices than the CPU, which may multiply with fewer digits
COARSE = 1e-3
#: the size below which logits count as being of that size
SMALLEST = 1e-2


class _Here(threading.local):
    """Models that this thread has looked at and not left since."""

    def __init__(self) -> None:
        self.models: set[int] = set()


_HERE = _Here()


@contextmanager
def measuring(model: nn.Module, x: Tensor, *, gradient: bool = True) -> Iterator[None]:
    """Evaluation mode for a call that measures a model, after one look at it on the first rows of x.

    Modes of layers and buffers are the old ones afterwards. Inside another call of `measuring` for the same model
    there is no second look.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features), checked.
        gradient: whether the model is going to be differentiated.

    >>> with measuring(nn.Linear(3, 2), torch.zeros(5, 4)):
    ...     pass
    Traceback (most recent call last):
    r2et.errors.ModelError: the model cannot be run on inputs of shape (5, 4) and dtype torch.float32: ...
    """
    check_ready(model)
    with evaluating(model), looking_once():
        if id(model) in _HERE.models:
            yield
            return
        with buffers_kept(model), derivative_errors():
            preflight(model, x, gradient=gradient)
            with trusted(model):
                yield


@contextmanager
def trusted(model: nn.Module) -> Iterator[None]:
    """Leave out the look at a model: for training, and for a check that reports what it finds."""
    known = id(model) in _HERE.models
    _HERE.models.add(id(model))
    try:
        yield
    finally:
        if not known:
            _HERE.models.discard(id(model))


def check_module(model: object) -> None:
    """Raise unless this is a module, and not the class of one."""
    if isinstance(model, nn.Module):
        return
    if isinstance(model, type):
        raise ModelError(f"model must be a torch.nn.Module, got the class {model.__name__}: pass an object of it")
    kind = "None" if model is None else f"{model!r:.60} of type {type(model).__name__}"
    raise ModelError(
        f"model must be a torch.nn.Module that maps (N, *features) to logits (N, C), got {kind}; wrap a function "
        "or another library's model in a module whose forward returns differentiable logits"
    )


def check_ready(model: object) -> None:
    """Raise unless this is a module with all of its weights: a look at a lazy one would make them."""
    check_module(model)
    assert isinstance(model, nn.Module)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise ModelError(
                f"{name} of the model has no values yet, its shape comes from the first input: run the model "
                "once, model(x[:2]), before it is measured"
            )


@once
def preflight(model: nn.Module, x: Tensor, *, gradient: bool = True) -> None:
    """Raise a ModelError unless the model, in evaluation mode, runs on x (N, *features) and maps row by row."""
    check_tensors(model, x, gradient=gradient)
    problem = flaw(model, x, gradient=gradient)
    if problem is not None:
        raise ModelError(f"{problem.message}: {problem.repair}")


@once
def check_tensors(model: nn.Module, x: Tensor, *, gradient: bool = True) -> None:
    """Raise for numbers that are too coarse to rank by, and for tensors that autograd refuses."""
    named = {"x": x, **dict(model.named_parameters())}
    for name, tensor in named.items():
        if tensor.is_floating_point() and tensor.dtype not in TOLERANCES:
            raise ModelError(
                f"{name} has dtype {tensor.dtype}, whose rounding reorders features: use model.float() and "
                "x.float()"
            )
    if not gradient:
        return
    if torch.is_inference_mode_enabled():
        raise ModelError(
            "torch.inference_mode is active, and explanations need gradients: call r2et outside of it"
        )
    inside = [name for name, tensor in {**named, **dict(model.named_buffers())}.items() if tensor.is_inference()]
    if inside:
        repair = "x.clone()" if inside == ["x"] else "copy.deepcopy(model), and x.clone(),"
        raise ModelError(
            f"{inside[0]} was created inside torch.inference_mode, and such tensors have no gradients: use "
            f"{repair} outside of it"
        )


@dataclass(frozen=True)
class Flaw:
    """Why a model is no function of one row at a time.

    Attributes:
        code: "random" or "batch-dependent".
        message: what was seen, in a sentence without its full stop.
        repair: what to do.
    """

    code: str
    message: str
    repair: str


def flaw(model: nn.Module, x: Tensor, *, gradient: bool = True) -> Flaw | None:
    """What is wrong with a model in evaluation mode, seen on a few rows of x; a ModelError if it cannot run."""
    few = x[:ROWS].detach()
    with random_states_kept(x.device) as moved:
        with torch.no_grad():
            first = run(model, few, x)
        draws = moved()
        # a draw without an effect, from a seed of the model's own, is allowed
        for _ in range(PASSES if draws else 1):
            with torch.set_grad_enabled(gradient):
                again = run(model, few, x, gradient=gradient).detach()
            if apart(first, again, few, share=0.1 if draws else 1.0):
                return _random(first, again)
        with torch.no_grad():
            return _company(model, few, x, first)


def run(model: nn.Module, few: Tensor, x: Tensor | None = None, *, gradient: bool = False) -> Tensor:
    """The logits of a few rows; a ModelError in words if there are none, or if the model overwrites its input.

    Args:
        model: maps (N, *features) to logits (N, C).
        few: (N, *features); the model gets a copy.
        x: what the rows were taken from, for messages.
        gradient: let the copy require gradients, as an explainer does.
    """
    copy = few.clone().requires_grad_(gradient)
    version = None if copy.is_inference() else copy._version
    with (
        torch.set_grad_enabled(gradient or torch.is_grad_enabled()),
        foreign_errors(model, few if x is None else x),
    ):
        logits: Any = model(copy)
    if (version is not None and copy._version != version) or not torch.equal(copy, few):
        raise ModelError(_OVERWRITES)
    _check_output(logits, few)
    return logits  # type: ignore[no-any-return]  # modules return Any


_OVERWRITES = (
    "the model's forward pass overwrites its input, so that the next pass sees another one: write x = x + 1 "
    "instead of x += 1, and inplace=False for a layer that comes first"
)


def _check_output(logits: Any, few: Tensor) -> None:
    usable = isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == len(few) and logits.shape[1] > 0
    if not usable:
        check_logits(logits, len(few))
    if logits.device != few.device:
        raise ModelError(
            f"the model returned logits on {logits.device} for x on {few.device}: bring both together"
        )
    if logits.is_floating_point() and logits.dtype not in TOLERANCES:
        raise ModelError(
            f"the model returned logits of dtype {logits.dtype}, whose rounding reorders features: compute in "
            "float32, outside of torch.autocast"
        )
    # few rows of logits can look like probabilities by chance: only what is not finite is judged here
    if not torch.isfinite(logits.detach()).all():
        check_logits(logits, len(few))


@contextmanager
def foreign_errors(model: nn.Module, x: Tensor) -> Iterator[None]:
    """Turn whatever a model's own code raises on x into a ModelError that names the likely cause."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise ModelError(_cause(model, x, error)) from error


#: what torch says about a model that has no derivative, or no second one, and what to do about it
_NO_DERIVATIVE = {
    "modified by an inplace operation": (
        "a layer overwrites a value that its derivative needs: use inplace=False, and h = torch.relu(h) instead "
        "of h.relu_()"
    ),
    "derivative for ": (
        "an operation of the model cannot be differentiated twice, which this needs: r2et.validate.check names "
        "it; for attention run this inside `with torch.nn.attention.sdpa_kernel(SDPBackend.MATH):`"
    ),
    "use_reentrant=True": "the model uses checkpoints that torch.autograd.grad refuses: use use_reentrant=False",
}


@contextmanager
def derivative_errors() -> Iterator[None]:
    """Turn what torch says when a model cannot be differentiated into a ModelError; other errors pass."""
    try:
        yield
    except RuntimeError as error:
        cause = next((repair for words, repair in _NO_DERIVATIVE.items() if words in str(error)), None)
        if cause is None:
            raise
        raise ModelError(f"{cause} ({in_words(error)})") from error


def _cause(model: nn.Module, x: Tensor, error: Exception) -> str:
    text = (str(error).strip().splitlines() or ["no message"])[0]
    quoted = f"{type(error).__name__}: {text}"
    devices = {tensor.device for tensor in model.parameters()}
    if devices and x.device not in devices:
        return f"x is on {x.device}, the model on {', '.join(sorted(map(str, devices)))}: use x.to(...) ({quoted})"
    mismatch = dtype_mismatch(model, x)
    if mismatch is not None:
        return f"{mismatch} ({quoted})"
    if "nference tensor" in text:
        return f"the model uses a tensor that was created inside torch.inference_mode: clone it outside ({quoted})"
    if "leaf Variable" in text:
        return f"{_OVERWRITES} ({quoted})"
    return f"the model cannot be run on inputs of shape {tuple(x.shape)} and dtype {x.dtype}: {quoted}"


def dtype_mismatch(model: nn.Module, x: Tensor) -> str | None:
    """What to say about inputs of another dtype than the parameters; None if they agree."""
    own = next((tensor.dtype for tensor in model.parameters() if tensor.is_floating_point()), x.dtype)
    if own == x.dtype:
        return None
    return f"x has dtype {x.dtype}, the model {own}: use x.to({own}) or model.to({x.dtype})"


def _company(model: nn.Module, few: Tensor, x: Tensor, first: Tensor) -> Flaw | None:
    """Whether the logits of the first row depend on the rows beside it."""
    # a row that is alone gets an invented one beside it; a model that refuses that is not judged
    batch = few[:1] if len(few) > 1 else torch.cat([few, few.flip(-1)])
    try:
        other = run(model, batch, x)
    except ModelError as error:
        return None if len(few) == 1 else _batch_dependent(f"a row alone cannot be run: {error}")
    if not apart(first[:1], other[:1], few):
        return None
    return _batch_dependent(
        f"the first row has logits {_listed(first)} in one batch and {_listed(other)} in another"
    )


def _random(first: Tensor, again: Tensor) -> Flaw:
    row = int((first - again).abs().amax(1).argmax())
    return Flaw(
        "random",
        f"the model's forward pass is random, in evaluation mode too: two passes over row {row} give logits "
        f"{_listed(first[row:])} and {_listed(again[row:])}",
        "switch dropout and noise off in evaluation mode, by F.dropout(h, p, training=self.training) for example",
    )


def _batch_dependent(seen: str) -> Flaw:
    return Flaw(
        "batch-dependent",
        f"the model's output for a row depends on the other rows of its batch, in evaluation mode too ({seen})",
        "use running statistics or constants instead of statistics of the batch; if the logits are small "
        "differences of large numbers, compute in float64 (model.double(), x.double())",
    )


def apart(first: Tensor, second: Tensor, x: Tensor, share: float = 1.0) -> bool:
    """Whether logits of the same rows differ by more than rounding."""
    tolerance = max(TOLERANCES.get(dtype, 0.0) for dtype in (first.dtype, x.dtype))
    if x.device.type != "cpu":
        tolerance = max(tolerance, COARSE)
    size = max(float(first.abs().max()), float(second.abs().max()), SMALLEST)
    return float((first - second).abs().max()) > share * tolerance * size


def _listed(logits: Tensor) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in logits[0].tolist()[:4]) + ")"
