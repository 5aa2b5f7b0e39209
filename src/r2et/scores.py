"""The scalar that is explained: log-odds, probability, logit or margin of one class, or a single output.

One place for numerics, and for what a model with one output (N, 1) is taken for: one that predicts a number. Its
output is the only score it has, whatever the score is called; its "predicted class" is 0 for every row, and its
prediction is kept as long as the output stays within a tolerance of the clean one.

With logits u, p = softmax(u) and s_c = u_c - logsumexp over the other classes: grad p_c = p_c (1 - p_c) grad s_c.
The factor is one positive number per sample, so p_c and s_c give the same ranking of features; but the gradient of
p_c underflows where the model is sure of itself, and then a ranking of rounding errors looks stable. Features are
therefore ranked by s_c, and p_c is used only where a formula needs its scale.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.numerics.checks import check_labels, check_logits
from r2et.numerics.values import check_choice, quoted

Score = Literal["log-odds", "probability", "logit", "margin", "output"]
#: how far the output of a model with one output may move while its prediction counts as kept: a tenth of the
#: standard deviation of what is predicted, where that is standardised, as `r2et.StableRegressor` does
TOLERANCE = 0.1


def check_score(name: str) -> None:
    """Raise unless name is one of the scores."""
    check_choice("score", name, get_args(Score))


def log_odds(logits: Tensor, target: Tensor) -> Tensor:
    """s_c = u_c - logsumexp_{j != c} u_j, (N,).

    Args:
        logits: (N, C), C >= 2.
        target: the class c of each row, int64 (N,).

    >>> log_odds(torch.tensor([[2.0, -1.0]]), torch.tensor([0]))
    tensor([3.])
    """
    own = logit(logits, target)
    if logits.shape[1] == 2:
        return own - logit(logits, 1 - target)
    chosen = torch.arange(logits.shape[1], device=logits.device) == target[:, None]
    others = logits.masked_fill(chosen, -torch.inf)
    return own - others.logsumexp(1)


def probability(logits: Tensor, target: Tensor) -> Tensor:
    """p_c, (N,). Its derivative keeps its relative accuracy where p_c rounds to 1.

    >>> logits = torch.tensor([[30.0, 0.0]], requires_grad=True)
    >>> torch.autograd.grad(probability(logits, torch.tensor([0])), logits)[0][0, 0]
    tensor(9.3576e-14)
    """
    s = log_odds(logits, target)
    return torch.where(s > 0, 1 - torch.sigmoid(-s), torch.sigmoid(s))


def logit(logits: Tensor, target: Tensor) -> Tensor:
    """u_c, (N,). Its gradient ranks features differently from the other two scores."""
    try:
        if target.shape == logits.shape[:1]:
            return logits.gather(1, target[:, None]).squeeze(1)
    except (RuntimeError, IndexError, TypeError, AttributeError):
        # values are looked at afterwards: a training step that is traced has none
        _check(logits, target)
        raise
    _check(logits, target)
    raise AssertionError("as many labels as rows were refused")


def _check(logits: Tensor, target: Tensor) -> None:
    _check_logits(logits)
    check_labels(target, len(logits), logits.shape[1])


def _check_logits(logits: Tensor) -> None:
    if not isinstance(logits, Tensor) or logits.ndim != 2 or not logits.is_floating_point() or logits.shape[1] < 2:
        raise InputError(
            f"logits must be a floating-point tensor (N, C) of two classes or more, got {quoted(logits)}"
        )


def single(logits: Tensor) -> bool:
    """Whether these are outputs (N, 1) of a model that predicts a number."""
    return logits.shape[1] == 1


def output(outputs: Tensor) -> Tensor:
    """The single output of a model that predicts a number, (N,).

    >>> output(torch.tensor([[2.0], [-1.0]]))
    tensor([ 2., -1.])
    """
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or not single(outputs):
        raise InputError(
            f'score="output" is that of a model with one output (N, 1), got {quoted(outputs)}: with more, choose '
            '"log-odds", "logit", "margin" or "probability" of a class'
        )
    return outputs.squeeze(1)


def margin(logits: Tensor, target: Tensor) -> Tensor:
    """u_c - max_{j != c} u_j, (N,): the log-odds without the turning of their softmax. Two classes: the same.

    >>> margin(torch.tensor([[2.0, -1.0, 1.5]]), torch.tensor([0]))
    tensor([0.5000])
    """
    own = logit(logits, target)
    return own - logit(logits, runner_up_class(logits, target))


def runner_up_class(logits: Tensor, target: Tensor) -> Tensor:
    """The class with the largest logit other than `target`, int64 (N,)."""
    logit(logits, target)
    return logits.detach().scatter(1, target[:, None], -torch.inf).argmax(1)


def score(name: Score, logits: Tensor, target: Tensor) -> Tensor:
    """The named score, (N,). A model with one output has no other score than that, whatever the name.

    >>> score("log-odds", torch.tensor([[2.0], [-1.0]]), torch.tensor([0, 0]))
    tensor([ 2., -1.])
    """
    functions = {"log-odds": log_odds, "probability": probability, "logit": logit, "margin": margin}
    check_score(name)
    if name == "output" or (isinstance(logits, Tensor) and logits.ndim == 2 and single(logits)):
        return output(logits)
    return functions[name](logits, target)


def settled(name: Score, logits: Tensor) -> Score:
    """The score that a model with logits (N, C) is explained by: "output" where it has one output.

    >>> settled("log-odds", torch.zeros(3, 1)), settled("log-odds", torch.zeros(3, 2))
    ('output', 'log-odds')
    """
    return "output" if single(logits) else name


def presented(logits: Tensor, target: Tensor) -> Tensor:
    """What a prediction amounts to, (N,): the probability of a class, or the number that is predicted."""
    return score("probability", logits, target)


def probability_slope(logits: Tensor, target: Tensor) -> Tensor:
    """dp_c / ds_c = p_c (1 - p_c), (N,): what turns a gradient of the log-odds into one of the probability.

    It is 1 for a model with one output, where both are the output.
    """
    if single(logits):
        return torch.ones_like(output(logits))
    s = log_odds(logits, target)
    return torch.sigmoid(s) * torch.sigmoid(-s)


def predicted_class(logits: Tensor) -> Tensor:
    """The class with the largest logit, int64 (N,); 0 for every row of a model with one output."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or logits.shape[1] != 1:
        _check_logits(logits)
    return logits.detach().argmax(1)


def same_prediction(logits: Tensor, clean: Tensor, tolerance: float = TOLERANCE) -> Tensor:
    """Whether logits predict what the clean ones (N, C) do, bool (N,): the class, or the number up to a tolerance.

    >>> same_prediction(torch.tensor([[2.0, 1.0]]), torch.tensor([[9.0, 1.0]]))
    tensor([True])
    >>> same_prediction(torch.tensor([[2.0], [2.0]]), torch.tensor([[2.25], [2.75]]), tolerance=0.5)
    tensor([ True, False])
    """
    if single(clean):
        return (logits.detach() - clean).abs().squeeze(1) <= tolerance
    return predicted_class(logits) == predicted_class(clean)


def slack(logits: Tensor, clean: Tensor, target: Tensor, tolerance: float = TOLERANCE) -> Tensor:
    """How far a prediction is from another one, (N,): above 0 it is kept.

    The log-odds of the class; of a model with one output the share of the tolerance that is left.

    >>> slack(torch.tensor([[2.0], [2.0]]), torch.tensor([[2.0], [1.5]]), torch.tensor([0, 0]), tolerance=1.0)
    tensor([1.0000, 0.5000])
    """
    if single(clean):
        return 1 - (logits - clean).abs().squeeze(1) / tolerance
    return log_odds(logits, target)


def checked_target(target: Tensor | None, logits: Tensor) -> Tensor:
    """The class to explain, int64 (N,): the given one if it is valid, else the predicted one."""
    if target is None:
        return predicted_class(logits)
    check_labels(target, len(logits), logits.shape[1])
    return target


def runners_up(logits: Tensor, target: Tensor) -> Tensor:
    """`runner_up_class`, and 0 for every row of a model with one output, which has no other class."""
    return torch.zeros_like(target) if single(logits) else runner_up_class(logits, target)


def logits_of(model: nn.Module, x: Tensor) -> Tensor:
    """The logits (N, C) of each input, without a graph; raises unless the model returns logits."""
    with torch.no_grad():
        logits: Tensor = model(x)
    check_logits(logits, len(x))
    return logits


def prediction(model: nn.Module, x: Tensor) -> Tensor:
    """The predicted class of each input, int64 (N,); raises unless the model returns logits."""
    return predicted_class(logits_of(model, x))
