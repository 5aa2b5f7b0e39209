"""What is wrong with a model, where, and what to do about it: before anything runs for an hour."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from r2et.explainers import Explainer, Gradient
from r2et.numerics.attention import math_attention
from r2et.numerics.autograd import forward
from r2et.numerics.checks import check_differentiable, check_inputs, check_logits
from r2et.numerics.modes import buffers_kept, evaluating, random_states_kept
from r2et.numerics.preflight import check_ready, check_tensors, flaw, foreign_errors, trusted
from r2et.numerics.values import check_count, check_kind
from r2et.scores import predicted_class
from r2et.validate.findings import activation_findings, mode_findings, ranking_findings, saturation_findings
from r2et.validate.recorder import Call, label, listed, places, record
from r2et.validate.report import Finding, Report

#: rows that are enough to see which operations run and whether they can be differentiated twice
FEW_ROWS = 4


def check(model: nn.Module, x: Tensor, *, k: int | None = None, explainer: Explainer | None = None) -> Report:
    """Find what stands in the way of explaining a model, and of differentiating its explanation.

    The model is run and differentiated twice on a few rows, in the mode that it is in; its buffers and the random
    states stay as they were. Everything else in r2et runs a model in evaluation mode, without dropout and with the
    running statistics of BatchNorm: what is found in training mode is what other code sees. Layers that x does not
    reach are not looked at.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features), or (N, 2, *features) with a two-input explainer. A sample of real data: saturation,
            vanishing explanations and ties are counted on it.
        k: size of the salient set; None = ties are not counted.
        explainer: None = Gradient().

    >>> model = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 2))
    >>> [(finding.code, finding.where) for finding in check(model, torch.randn(8, 3)).findings]
    [('dropout', "layer '2' (Dropout)"), ('piecewise-linear', "layer '1' (ReLU)"),
     ('training-mode', 'the model (Sequential)')]
    """
    check_ready(model)
    check_inputs(x)
    check_tensors(model, x, gradient=True)
    explainer = Gradient() if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    if k is not None:
        check_count("k", k)
    explainer.check_shape(x)
    # a copy, because an in-place layer may come first
    x = x.detach().clone()
    with trusted(model), buffers_kept(model), random_states_kept(x.device):
        few = x[:FEW_ROWS]
        calls, output = record(model, few)
        with torch.no_grad(), foreign_errors(model, x):
            logits = model(x.clone())
        check_logits(logits, len(x))
        if output is not None:
            check_differentiable(output)
        failure = _derivative_failure(model, few, explainer.inputs)
        findings = [*mode_findings(model, calls), *activation_findings(calls)]
        findings += _derivative_findings(model, few, explainer.inputs, calls, failure)
        if failure is None:
            findings += _evaluation_findings(model, x, {finding.code for finding in findings})
        findings += saturation_findings(logits, explainer)
        try:
            scores = explainer(model, x)
        except RuntimeError:
            if failure is None:
                raise
        else:
            findings += ranking_findings(scores, k, positive=explainer.positive)
    rank = {"error": 0, "warning": 1, "note": 2}
    return Report(tuple(sorted(findings, key=lambda finding: rank[finding.severity])))


def piecewise_linear(model: nn.Module, x: Tensor) -> bool:
    """Whether activations of a model have no second derivative, seen on a few rows of x (N, *features).

    >>> piecewise_linear(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(8, 3))
    True
    """
    check_ready(model)
    check_inputs(x)
    with evaluating(model), buffers_kept(model), random_states_kept(x.device):
        calls, _ = record(model, x[:FEW_ROWS].clone())
    return any(finding.code == "piecewise-linear" for finding in activation_findings(calls))


def _evaluation_findings(model: nn.Module, x: Tensor, known: set[str]) -> Iterator[Finding]:
    """What everything else in r2et refuses in evaluation mode, unless a finding about its cause is there."""
    with evaluating(model):
        seen = flaw(model, x)
    if seen is not None and {"random": "dropout", "batch-dependent": "batch-norm"}[seen.code] not in known:
        message = seen.message[0].upper() + seen.message[1:] + "."
        yield Finding(seen.code, "error", label("", model), message, seen.repair)


def _derivative_failure(model: nn.Module, x: Tensor, inputs: int) -> str | None:
    """The error when the gradient of the log-odds is differentiated again, by all that it depends on."""
    try:
        point, logits = forward(model, x)
        with torch.enable_grad():
            gradient = Gradient(inputs=inputs).attribute(
                model, point, predicted_class(logits), create_graph=True, logits=logits
            )
            if gradient.requires_grad:
                value = gradient.square().sum()
                torch.autograd.grad(value, _leaves(value), allow_unused=True)
    except RuntimeError as error:
        return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
    return None


def _leaves(value: Tensor) -> list[Tensor]:
    """Every tensor that a value depends on through autograd.

    Asked for x and the parameters alone, autograd passes by a function marked `once_differentiable`: its part of
    the second derivative is missing without a word. The function's error sits in front of a leaf of its own.
    """
    leaves: list[Tensor] = []
    seen: set[Any] = set()
    ahead: list[Any] = [value.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        ahead.extend(next_node for next_node, _ in node.next_functions)
    return leaves


def _derivative_findings(
    model: nn.Module, x: Tensor, inputs: int, calls: list[Call], failure: str | None
) -> Iterator[Finding]:
    attending = [
        call
        for call in calls
        if call.name == "scaled_dot_product_attention"
        or (call.name == "multi_head_attention_forward" and call.options.get("need_weights") is False)
    ]
    recurrent = [label(name, layer) for name, layer in model.named_modules() if isinstance(layer, nn.RNNBase)]
    math_kernel = (
        "from torch.nn.attention import SDPBackend, sdpa_kernel, and run everything inside "
        "`with sdpa_kernel(SDPBackend.MATH):`"
    )
    without_cudnn = "run everything inside `with torch.backends.cudnn.flags(enabled=False):`"
    if failure is None:
        fused = torch.backends.cuda.flash_sdp_enabled() or torch.backends.cuda.mem_efficient_sdp_enabled()
        if attending and fused:
            yield Finding(
                "attention",
                "note",
                places(attending),
                "The attention kernel chosen here can be differentiated twice; other devices, types and lengths "
                "may get one that cannot.",
                math_kernel,
            )
        if recurrent and x.device.type != "cuda":
            yield Finding(
                "cudnn-rnn",
                "note",
                listed(recurrent),
                "On a CUDA device cuDNN runs this layer, and cuDNN has no second derivative.",
                f"there, {without_cudnn}",
            )
        return
    # a diagnosis by experiment: the repair is only proposed where it works
    if attending:
        with math_attention():
            repaired = _derivative_failure(model, x, inputs) is None
        if repaired:
            message = f"The attention kernel cannot be differentiated twice ({failure})."
            yield Finding("attention", "error", places(attending), message, math_kernel)
            return
    if recurrent:
        with torch.backends.cudnn.flags(enabled=False):
            repaired = _derivative_failure(model, x, inputs) is None
        if repaired:
            message = f"cuDNN's recurrent layers cannot be differentiated twice ({failure})."
            yield Finding("cudnn-rnn", "error", listed(recurrent), message, without_cudnn)
            return
    yield Finding(
        "double-backward",
        "error",
        label("", model),
        f"The gradient cannot be computed or differentiated again: {failure}. Attacks and training stop here.",
        "write the operation that the error names in differentiable torch functions; where an activation works "
        "in place, begin with inplace=False",
    )
