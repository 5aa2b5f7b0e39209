"""Checks of tensors: inputs, labels and what a model returns."""

import torch
from torch import Tensor

from r2et.errors import InputError, ModelError
from r2et.numerics.once import once
from r2et.numerics.values import check_kind, is_truth, quoted


def check_baseline(baseline: float | Tensor) -> Tensor:
    """What a feature is compared with or replaced by: finite numbers, one, or one per feature; as a tensor."""
    try:
        values = torch.as_tensor(baseline)
        usable = not values.is_complex() and not is_truth(values) and bool(torch.isfinite(values).all())
    except (TypeError, ValueError, RuntimeError, OverflowError):
        usable = False
    if not usable:
        raise InputError(
            f"the baseline must be finite: a number, or a tensor with one for each feature, got {quoted(baseline)}"
        )
    return values


def check_generator(generator: torch.Generator | None) -> None:
    """None, or a generator of torch."""
    if generator is not None:
        check_kind("generator", generator, torch.Generator, "torch.Generator().manual_seed(0)")


@once
def check_inputs(x: Tensor, name: str = "x") -> None:
    """A non-empty batch (N, *features) of finite floating-point numbers."""
    if not isinstance(x, Tensor):
        raise InputError(
            f"{name} must be a torch tensor of shape (N, *features), got {type(x).__name__}; "
            "use torch.as_tensor(values, dtype=torch.float32)"
        )
    if x.layout != torch.strided or x.is_nested:
        stored = "nested" if x.is_nested else str(x.layout)
        raise InputError(f"{name} is stored as {stored}, not as a plain array: use {name}.to_dense()")
    if x.is_meta:
        raise InputError(f"{name} is on the device 'meta', which holds no numbers: make it on another device")
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


def check_differentiable_inputs(x: Tensor) -> None:
    """A tensor that autograd takes."""
    if x.is_inference():
        raise InputError(
            "x was created inside torch.inference_mode, and such tensors have no gradients: use x.clone() outside "
            "of it"
        )


@once
def check_labels(y: Tensor, rows: int, classes: int | None = None) -> None:
    """Integer class labels (N,), each in 0..classes-1."""
    if not isinstance(y, Tensor) or y.is_nested or y.dtype != torch.int64 or y.ndim != 1:
        plain = isinstance(y, Tensor) and not y.is_nested
        seen = f"{y.dtype} of shape {tuple(y.shape)}" if plain else type(y).__name__
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
                if classes > 1
                else f"label {int(y[row])} in row {row} is out of range: the model has one output, and no classes "
                f"but 0; {ONE_LOGIT}"
            )


#: to whoever meant two classes by one output
ONE_LOGIT = "for a classifier with a single sigmoid output z return torch.cat([torch.zeros_like(z), z], dim=1)"


@once
def check_told(y: Tensor, rows: int) -> None:
    """What is true of rows: class numbers, int64 (N,), or finite numbers, floating-point (N,)."""
    if not isinstance(y, Tensor) or y.is_nested or not y.is_floating_point() or y.ndim != 1:
        check_labels(y, rows)
        return
    if len(y) != rows:
        raise InputError(f"{len(y)} labels for {rows} rows of x")
    bad = ~torch.isfinite(y)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise InputError(
            f"y has {int(bad.sum())} values that are NaN or infinite, first {y[row].item()} in row {row}"
        )


def check_outcomes(y: Tensor, rows: int, outputs: int) -> None:
    """What is true of rows fits a model: class numbers for two outputs or more, numbers (N,) for one.

    Zeros and ones alone are two classes: whoever gives them to a model of one output has a classifier in mind.
    """
    check_told(y, rows)
    if outputs > 1:
        if y.is_floating_point():
            raise InputError(
                f"the model has {outputs} outputs, so it predicts classes: labels must be whole class numbers "
                f"without fractions, a 1-d int64 tensor, got {y.dtype}; one output (N, 1) predicts numbers"
            )
        check_labels(y, rows, outputs)
        return
    distinct = y.unique() if y.numel() < 2**24 else y[: 2**20].unique()
    if len(distinct) == 2 and bool(((distinct == 0) | (distinct == 1)).all()):
        raise ModelError(
            "the model has one output, which is taken for a number that it predicts (regression), and the labels "
            f"are 0 and 1 alone, which are two classes: {ONE_LOGIT}"
        )


def as_numbers(y: Tensor, like: Tensor) -> Tensor:
    """What is true of rows (N,), in the dtype of the outputs (N, 1) of a model that predicts numbers."""
    return y.to(like.dtype) if like.shape[1] == 1 else y


def check_logits(logits: Tensor, rows: int) -> None:
    """The output of a model: logits (N, C) of classes, not probabilities, or one number each (N, 1)."""
    if not isinstance(logits, Tensor):
        raise ModelError(
            f"the model must return a tensor of logits (N, classes), got {type(logits).__name__}; "
            "wrap it in a module that returns the logits alone"
        )
    if logits.ndim != 2 or logits.shape[0] != rows:
        column = f"; a model that predicts one number z returns a column, z.reshape(-1, 1), and {ONE_LOGIT}"
        raise ModelError(
            f"the model must return logits of shape ({rows}, classes), got {tuple(logits.shape)}"
            + (column if logits.ndim == 1 else "")
        )
    if logits.shape[1] < 1:
        raise ModelError(f"the model returned logits of shape {tuple(logits.shape)}: there is no output")
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
    return values.shape[1] > 1 and bool(
        inside.all() and strictly and ((values.sum(1) - 1).abs() < tolerance).all()
    )


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
