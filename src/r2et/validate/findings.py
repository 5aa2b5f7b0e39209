"""The problems that can be read off a model's layers, calls, logits and explanations."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.explainers import Explainer
from r2et.scores import predicted_class, probability_slope
from r2et.validate.recorder import Call, label, listed, places
from r2et.validate.report import Finding

#: a factor p(1-p) below this makes gradients of the probability vanish in float32
SATURATED = 1e-6

_BENT = {
    *("relu", "relu6", "leaky_relu", "prelu", "rrelu", "rnn_relu", "rnn_relu_cell"),
    *("hardtanh", "hardsigmoid", "threshold", "_threshold", "hardshrink", "softshrink"),
}
_CURVED = {"elu", "selu", "celu", "silu", "mish", "hardswish", "gelu", "sigmoid", "tanh"}
_SELECTING = {"clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "amax"}


def mode_findings(model: nn.Module, calls: list[Call]) -> Iterator[Finding]:
    """What depends on training or evaluation mode, and what cannot be looked into."""
    layers = list(model.named_modules())
    batch = [
        label(name, layer)
        for name, layer in layers
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and (layer.training or layer.running_mean is None)
    ]
    if batch:
        yield Finding(
            "batch-norm",
            "error",
            listed(batch),
            "Batch statistics are in use: the explanation of a row depends on the other rows of its batch. r2et "
            "measures in evaluation mode, and refuses a layer that has no other statistics there.",
            "model.eval(); a layer with track_running_stats=False has no other statistics: train it with them",
        )
    dropped = [call for call in calls if _drops(call)]
    inside = [
        label(name, layer)
        for name, layer in layers
        if isinstance(layer, nn.MultiheadAttention | nn.RNNBase)
        and layer.training
        and layer.dropout > 0
        and getattr(layer, "num_layers", 2) > 1
    ]
    if dropped or inside:
        yield Finding(
            "dropout",
            "error",
            listed([*dict.fromkeys(call.where for call in dropped), *inside]),
            "Dropout is on: explanations are random, and two of the same input differ. r2et measures in "
            "evaluation mode, and refuses a model whose dropout stays on there.",
            "model.eval(); in a forward of your own, F.dropout(h, p, training=self.training)",
        )
    if model.training:
        yield Finding(
            "training-mode",
            "note",
            label("", model),
            "The model is in training mode. r2et switches to evaluation mode to measure it, and back; other code "
            "does not.",
            "model.eval()",
        )
    scripted = [label(name, layer) for name, layer in layers if isinstance(layer, torch.jit.ScriptModule)]
    if scripted:
        yield Finding(
            "torchscript",
            "note",
            listed(scripted),
            "Compiled by TorchScript: its operations cannot be seen, so activations and dropout are not checked.",
            "check the model before torch.jit.script or torch.jit.trace",
        )


def _drops(call: Call) -> bool:
    if call.name == "scaled_dot_product_attention":
        return bool(call.option(4, "dropout_p"))
    return (
        "dropout" in call.name and call.option(1, "p") != 0 and call.option(2, "training", "train") in (True, None)
    )


def activation_findings(calls: list[Call]) -> Iterator[Finding]:
    """Functions with bends, and functions that overwrite their input."""
    bent = [call for call in calls if call.name in _BENT]
    if bent:
        yield Finding(
            "piecewise-linear",
            "warning",
            places(bent),
            "The second derivative is zero wherever it exists, and the gradient jumps in between: curvature terms "
            "of training see nothing, and bounds or certificates from second derivatives do not hold.",
            "r2et.validate.smooth(model, beta=5.0) copies the model with softplus in place of ReLU, ReLU6, "
            "LeakyReLU and Hardtanh, to be fine-tuned; replace others by nn.Softplus, nn.GELU or nn.Tanh",
        )
    over = [call for call in calls if call.in_place and call.name in _BENT | _CURVED]
    if over:
        yield Finding(
            "in-place",
            "warning",
            places(over),
            "An activation overwrites its input, which a derivative may still need.",
            "layer.inplace = False for each of these layers; in a forward of your own, h = torch.relu(h) instead "
            "of h.relu_()",
        )
    selecting = [call for call in calls if "max_pool" in call.name or call.name in _SELECTING]
    if selecting:
        yield Finding(
            "selection",
            "note",
            places(selecting),
            "A maximum or a clamp is piecewise linear: the gradient jumps where another entry takes over.",
            "average pooling or a strided convolution where a method needs two continuous derivatives",
        )


def saturation_findings(logits: Tensor, explainer: Explainer) -> Iterator[Finding]:
    """Rows of logits (N, C) where the probability is flat; a single output has none."""
    flat = probability_slope(logits, predicted_class(logits)) < SATURATED
    if not flat.any():
        return
    used = explainer.score == "probability"
    yield Finding(
        "saturated",
        "warning" if used else "note",
        _rows(flat),
        f"p(1-p) is below {SATURATED:g} in {float(flat.float().mean()):.1%} of the rows: gradients of the "
        "probability vanish there"
        + (", and this explainer is made of them." if used else "; the log-odds still rank."),
        "explain the log-odds (score='log-odds'), and let attacks use it too; or train with less confidence "
        "(weight decay, label smoothing)",
    )


def ranking_findings(scores: Tensor, k: int | None, *, positive: bool = False) -> Iterator[Finding]:
    """Rows of an explanation (N, ..., n) whose ranking says nothing; with `positive` a list ends at 0."""
    largest = scores.abs().amax(-1).reshape(len(scores), -1)
    # of a pair, either input
    vanished = (largest < torch.finfo(scores.dtype).tiny).any(1)
    if vanished.any():
        yield Finding(
            "vanishing",
            "error" if vanished.all() else "warning",
            _rows(vanished),
            "Every score is zero or below the smallest normal number: the ranking is one of rounding errors, and "
            "looks perfectly stable.",
            "leave these rows out; if it is most of them, look for dead ReLU units, a detached input or a "
            "saturated score, or compute in float64",
        )
    if k is not None:
        places = ranking.with_blanks(scores, k) if positive else scores
        # an empty place is decided by no tie
        equal = (ranking.boundary_gap(places, k) == 0) & ((places.topk(k).values[..., -1] > 0) | (not positive))
        tied = equal.reshape(len(scores), -1).any(1)
        if tied.any():
            yield Finding(
                "tie",
                "warning",
                _rows(tied),
                f"The scores of ranks {k} and {k + 1} are equal: the top-{k} set is decided by the order of the "
                "columns.",
                "another k, or one column for features that are copies of each other",
            )


def _rows(mask: Tensor) -> str:
    indices = [str(i) for i in mask.nonzero().flatten().tolist()]
    return f"{len(indices)} of {len(mask)} rows: {listed(indices)}"
