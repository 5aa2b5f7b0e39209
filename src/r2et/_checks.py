"""Checks of what a user hands in: every message quotes the input and says what to do about it."""

import difflib
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


class InputError(ValueError):
    """Something a user passed in cannot be used."""


class ModelError(InputError):
    """A model does not behave as r2et needs it to."""


class DataError(InputError):
    """A data set cannot be found, read or trusted."""


class CheckpointError(InputError):
    """A file is not a complete r2et checkpoint."""


def check_k(k: int, n: int) -> None:
    """The top-k set must be a proper, non-empty part of the n features."""
    if isinstance(k, bool) or not isinstance(k, int):
        raise InputError(f"k must be a whole number, got {k!r}")
    if not 1 <= k < n:
        raise InputError(f"k must be at least 1 and less than the {n} features that are ranked, got k={k}")


def check_positive(name: str, value: float) -> None:
    """A radius, a step count, a scale: finite and above zero."""
    if not (value > 0 and value < float("inf")):
        raise InputError(f"{name} must be a positive, finite number, got {name}={value}")


def check_chunk_size(chunk_size: int | None) -> None:
    """None, or a positive whole number."""
    if chunk_size is not None:
        check_count("chunk_size", chunk_size)


def check_count(name: str, value: int) -> None:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {name}={value!r}")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """One of a few names; the closest match is suggested."""
    known = list(choices)
    if value not in known:
        raise InputError(f"unknown {name} {value!r}{suggestion(value, known)}")


def suggestion(value: str, known: Sequence[str]) -> str:
    """`": did you mean 'x'? Known: ..."`, to end an error message with."""
    close = difflib.get_close_matches(str(value).lower(), known, n=1, cutoff=0.5)
    hint = f": did you mean {close[0]!r}?" if close else "."
    return f"{hint} Known: {', '.join(known)}"


def check_inputs(x: Tensor, name: str = "x") -> None:
    """A non-empty batch (N, *features) of finite floating-point numbers."""
    if not isinstance(x, Tensor):
        raise InputError(
            f"{name} must be a torch tensor of shape (N, *features), got {type(x).__name__}; "
            "use torch.as_tensor(values, dtype=torch.float32)"
        )
    if not x.is_floating_point():
        raise InputError(f"{name} has dtype {x.dtype}; gradients need floating-point inputs: use {name}.float()")
    if x.ndim < 2:
        raise InputError(
            f"{name} must have shape (N, *features), got {tuple(x.shape)}; "
            f"one sample is a batch of one: {name}[None]"
        )
    if x.numel() == 0:
        raise InputError(f"{name} is empty: shape {tuple(x.shape)}")
    bad = ~torch.isfinite(x)
    if bad.any():
        where = tuple(bad.nonzero()[0].tolist())
        raise InputError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite; the first is "
            f"{x[where].item()} at {name}[{', '.join(map(str, where))}]"
        )


def check_labels(y: Tensor, rows: int, classes: int | None = None) -> None:
    """Integer class labels (N,), each in 0..classes-1."""
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.ndim != 1:
        seen = f"{y.dtype} of shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise InputError(f"labels must be a 1-d int64 tensor of class numbers, got {seen}; use labels.long()")
    if len(y) != rows:
        raise InputError(f"{len(y)} labels for {rows} rows of x")
    if classes is not None:
        outside = (y < 0) | (y >= classes)
        if outside.any():
            row = int(outside.nonzero()[0])
            raise InputError(
                f"label {int(y[row])} in row {row} is out of range: the model has {classes} classes, "
                f"so labels go from 0 to {classes - 1}"
            )


def check_logits(logits: Tensor, rows: int) -> None:
    """The output of a model: logits (N, C) with at least two classes, not probabilities."""
    if not isinstance(logits, Tensor):
        raise ModelError(
            f"the model must return a tensor of logits (N, classes), got {type(logits).__name__}; "
            "wrap it in a module that returns the logits alone"
        )
    if logits.ndim != 2 or logits.shape[0] != rows:
        raise ModelError(f"the model must return logits of shape ({rows}, classes), got {tuple(logits.shape)}")
    if logits.shape[1] < 2:
        raise ModelError(
            f"the model returned logits of shape {tuple(logits.shape)}, one column; r2et needs one logit a "
            "class: for a single sigmoid output z return torch.cat([torch.zeros_like(z), z], dim=1)"
        )
    values = logits.detach()
    if not torch.isfinite(values).all():
        row = int((~torch.isfinite(values)).any(1).nonzero()[0])
        raise ModelError(f"the model returned NaN or infinite logits, first in row {row}: {values[row].tolist()}")
    if _look_like_probabilities(values):
        raise ModelError(
            "the model returns probabilities (every row lies in [0, 1] and sums to 1, first row "
            f"{values[0].tolist()}); r2et needs logits: remove the final softmax"
        )


def _look_like_probabilities(values: Tensor) -> bool:
    tolerance = 1e-5 if values.dtype in (torch.float32, torch.float64) else 1e-2
    inside = (values >= 0) & (values <= 1)
    # logits such as (0, 1) sum to one by design; a softmax is strictly inside somewhere
    strictly = ((values > 0) & (values < 1)).all(1).any()
    return bool(inside.all() and strictly and ((values.sum(1) - 1).abs() < tolerance).all())


def check_differentiable(logits: Tensor) -> None:
    """The logits must be connected to something by autograd."""
    if not logits.requires_grad:
        raise no_gradient()


def no_gradient() -> ModelError:
    """What to say about a model whose output is not connected to its input."""
    return ModelError(
        "the model's output has no gradient with respect to its input: look for torch.no_grad(), "
        "inference_mode, .detach(), argmax or rounding in its forward pass"
    )
