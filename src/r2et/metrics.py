"""How good the predictions are, before and after an attack, and how faithful the explanations (App. B.1.4)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et import ranking
from r2et.attacks import AttackResult
from r2et.domain import Domain, under_threat
from r2et.errors import InputError, ModelError
from r2et.explainers import Activation, ByColumns, Explainer, Gradient
from r2et.numerics.checks import (
    ONE_LOGIT,
    check_baseline,
    check_inputs,
    check_labels,
    check_logits,
    check_outcomes,
    check_told,
)
from r2et.numerics.memory import at_once
from r2et.numerics.modes import random_states_kept
from r2et.numerics.preflight import check_module, measuring
from r2et.numerics.values import as_number, check_count, check_k, check_kind, check_positive, quoted
from r2et.scores import TOLERANCE, log_odds, output, predicted_class, presented, same_prediction, single


def auc(model: nn.Module, x: Tensor, y: Tensor, *, chunk_size: int | None = None) -> float:
    """The area under the ROC curve: clean AUC (cAUC) on clean inputs (App. B.1.4).

    Two classes are ranked by the log-odds of class 1. With more it is the mean over the classes in y of one class
    against the rest. Log-odds order a class as its softmax probability does, and do not round to 1.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features).
        y: class labels, int64 (N,), of at least two classes.
        chunk_size: how many rows are evaluated at once; None = as many as fit 2**24 input values.

    >>> model = nn.Linear(1, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0], [1.0]])
    >>> auc(model, torch.tensor([[-1.0], [2.0], [1.0], [3.0]]), torch.tensor([0, 0, 1, 1]))
    0.75
    """
    check_inputs(x)
    check_told(y, len(x))
    rows = _rows_at_once(x, chunk_size)
    with measuring(model, x, gradient=False):
        logits = _logits(model, x, rows)
    return auc_of_logits(logits, y)


def auc_of_logits(logits: Tensor, y: Tensor) -> float:
    """The same from logits (N, C) and their labels (N,).

    >>> auc_of_logits(torch.tensor([[0.0, -1.0], [0.0, 2.0], [0.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0, 1, 1]))
    0.75
    """
    check_kind("logits", logits, Tensor, "model(x)")
    # what it imports in turn draws a random number
    with random_states_kept(logits.device):
        from sklearn.metrics import roc_auc_score
    _check_classes(y, logits)
    present = y.unique().tolist()
    if len(present) < 2:
        raise InputError(
            f"an AUC needs labels of at least two classes, but all {len(y)} labels are {present[0]}: take rows of "
            "other classes too"
        )
    logits, labels = logits.double().cpu(), y.cpu()
    classes = [1] if logits.shape[1] == 2 else present
    areas = [
        roc_auc_score((labels == c).numpy(), log_odds(logits, torch.full_like(labels, c)).numpy()) for c in classes
    ]
    return float(sum(areas) / len(areas))


def r2(model: nn.Module, x: Tensor, y: Tensor, *, chunk_size: int | None = None) -> float:
    """The coefficient of determination of a model with one output: the share of the variance of y it explains.

    Args:
        model: maps (N, *features) to outputs (N, 1).
        x: (N, *features).
        y: numbers (N,), not all the same.
        chunk_size: how many rows are evaluated at once; None = as many as fit 2**24 input values.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> model.weight.data = torch.tensor([[1.0]])
    >>> r2(model, torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([1.0, 2.0, 4.0]))
    0.7857...
    """
    outputs = _outputs_of_numbers(model, x, y, chunk_size)
    return r2_of_outputs(outputs, y)


def r2_of_outputs(outputs: Tensor, y: Tensor, *, constant: float | None = None) -> float:
    """The same from outputs (N, 1) and numbers (N,); `constant` is for numbers that are all the same."""
    check_kind("outputs", outputs, Tensor, "model(x)")
    predicted, true = output(outputs).double().cpu(), y.double().cpu()
    spread = (true - true.mean()).square().sum()
    if not spread > 0:
        if constant is not None:
            return constant
        raise InputError(
            f"an R2 needs numbers that differ, but all {len(y)} are {y[0].item()}: take rows with others too"
        )
    return float(1 - (true - predicted).square().sum() / spread)


def mae(model: nn.Module, x: Tensor, y: Tensor, *, chunk_size: int | None = None) -> float:
    """The mean absolute error of a model with one output, in the units of y; arguments as in `r2`.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> model.weight.data = torch.tensor([[1.0]])
    >>> mae(model, torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0]))
    1.0
    """
    return mae_of_outputs(_outputs_of_numbers(model, x, y, chunk_size), y)


def mae_of_outputs(outputs: Tensor, y: Tensor) -> float:
    """The same from outputs (N, 1) and numbers (N,)."""
    return float((output(outputs).double().cpu() - y.double().cpu()).abs().mean())


def quality(model: nn.Module, x: Tensor, y: Tensor, *, chunk_size: int | None = None) -> float:
    """How well a model predicts: AUC of classes y, int64 (N,), or R2 of numbers y (N,), 0 if all are alike."""
    if not isinstance(y, Tensor) or not y.is_floating_point():
        return auc(model, x, y, chunk_size=chunk_size)
    return r2_of_outputs(_outputs_of_numbers(model, x, y, chunk_size), y, constant=0.0)


def _outputs_of_numbers(model: nn.Module, x: Tensor, y: Tensor, chunk_size: int | None) -> Tensor:
    check_inputs(x)
    check_told(y, len(x))
    rows = _rows_at_once(x, chunk_size)
    with measuring(model, x, gradient=False):
        outputs = _logits(model, x, rows)
    if not single(outputs):
        raise InputError(
            f"R2 and mean absolute error are of a model with one output, this one has {outputs.shape[1]}: use "
            "r2et.metrics.auc"
        )
    check_outcomes(y, len(x), 1)
    return outputs


def adversarial_auc(model: nn.Module, result: AttackResult, y: Tensor, *, chunk_size: int | None = None) -> float:
    """The AUC at the perturbed inputs (aAUC, App. B.1.4); arguments as in `auc`.

    It is meant for attacks with keep="last": with keep="best" every prediction is kept by construction.

    >>> from r2et.attacks import ERAttack
    >>> model, x, y = nn.Linear(3, 2), torch.randn(4, 3), torch.tensor([0, 1, 0, 1])
    >>> result = ERAttack(k=1, radius=0.1, steps=2, keep="last")(model, x)
    >>> adversarial_auc(model, result, y) == auc(model, result.x, y)
    True
    """
    _check_result(result)
    return auc(model, result.x, y, chunk_size=chunk_size)


def sensitivity(result: AttackResult) -> float:
    """The share of rows whose predicted class an attack changed (Sen, App. B.1.4).

    It is meant for attacks with keep="last": with keep="best" it is 0 by construction.

    >>> from r2et.attacks import ERAttack
    >>> sensitivity(ERAttack(k=1, radius=0.1, steps=2)(nn.Linear(3, 2), torch.randn(4, 3)))
    0.0
    """
    _check_result(result)
    return float((~result.kept).double().mean())


def _check_result(result: AttackResult) -> None:
    check_kind("result", result, AttackResult, "what r2et.attacks.ERAttack(k=8, radius=0.1)(model, x) returns")


def displaced(result: AttackResult, k: int) -> Tensor:
    """How many of the k most important features an attack drove out of the list, (N,).

    For pairs of inputs the mean over both.

    >>> from r2et.attacks import ERAttack
    >>> displaced(ERAttack(k=1, radius=0.1, steps=2)(nn.Linear(3, 2), torch.randn(4, 3)), k=1)
    tensor([0., 0., 0., 0.])
    """
    _check_result(result)
    n = result.before.shape[-1]
    check_k(k, n + 1 if result.positive and k == n else n)
    before, after = (
        ranking.list_mask(scores, k, positive=result.positive) for scores in (result.before, result.after)
    )
    lost = before & ~after
    return lost.sum(-1).to(result.before.dtype).reshape(len(lost), -1).mean(1)


def dffot(
    model: nn.Module,
    x: Tensor,
    *,
    explainer: Explainer | None = None,
    baseline: float | Tensor | None = None,
    fractions: Sequence[float] | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
    tolerance: float = TOLERANCE,
) -> Tensor:
    """Decision flip, fraction of tokens: the smallest k/n whose removal changes the predicted class (App. B.1.4).

    Lower is more faithful. A row whose prediction no k of K changes gets 1.0. A single output (N, 1) has changed
    once it has moved by more than the tolerance.

    Args:
        model: maps (N, *features) to logits (N, C).
        x: (N, *features), or (N, 2, *features) with a two-input explainer, where the top-k features of each of the
            two inputs are removed.
        explainer: None = Gradient().
        baseline: what a removed feature is set to: a number, or a tensor that broadcasts to one input (*features).
            None = 0; for columns the most frequent value of a discrete column, so that every row exists.
        fractions: K = round(fraction * n), at least 1, such as (0.01, 0.05, 0.1, 0.2, 0.5) for images and graphs;
            None = 1..n, for tables.
        chunk_size: how many inputs are evaluated at once; None = as many as fit 2**24 values.
        domain: the inputs that exist: the model is explained, and evaluated where features are removed, without
            its gauge (`r2et.domain.without_gauge`).
        tolerance: of a single output, in its units.

    Returns:
        (N,), between 1/n and 1.

    >>> model = nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [4.0, 2.0, 1.0]])
    >>> dffot(model, torch.tensor([[1.0, -1.0, -0.5]]))      # log-odds 1.5; -2.5 without the first feature
    tensor([0.3333])
    """
    return _changes(
        model,
        x,
        explainer=explainer,
        baseline=baseline,
        fractions=fractions,
        chunk_size=chunk_size,
        domain=domain,
        tolerance=tolerance,
        keep=[False],
    )[0][1]


def comprehensiveness(
    model: nn.Module,
    x: Tensor,
    *,
    explainer: Explainer | None = None,
    baseline: float | Tensor | None = None,
    fractions: Sequence[float] | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
) -> Tensor:
    """COMP: the mean over K of |f_c(x) - f_c(x without its top-k features)| (App. B.1.4), (N,).

    f_c is the probability of the class predicted for x. Higher is more faithful. Arguments as in `dffot`.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0], [100.0, 50.0]])
    >>> comprehensiveness(model, torch.ones(1, 2))     # removing one feature changes nothing, removing both 1/2
    tensor([0.2500])
    """
    return _changes(
        model,
        x,
        explainer=explainer,
        baseline=baseline,
        fractions=fractions,
        chunk_size=chunk_size,
        domain=domain,
        keep=[False],
    )[0][0]


def sufficiency(
    model: nn.Module,
    x: Tensor,
    *,
    explainer: Explainer | None = None,
    baseline: float | Tensor | None = None,
    fractions: Sequence[float] | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
) -> Tensor:
    """SUFF: the mean over K of |f_c(x) - f_c(x with its top-k features only)| (App. B.1.4), (N,).

    f_c is the probability of the class predicted for x. Lower is more faithful. Arguments as in `dffot`.

    >>> model = nn.Linear(2, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0], [100.0, 50.0]])
    >>> sufficiency(model, torch.ones(1, 2))
    tensor([0.])
    """
    return _changes(
        model,
        x,
        explainer=explainer,
        baseline=baseline,
        fractions=fractions,
        chunk_size=chunk_size,
        domain=domain,
        keep=[True],
    )[0][0]


def faithfulness(
    model: nn.Module,
    x: Tensor,
    *,
    explainer: Explainer | None = None,
    baseline: float | Tensor | None = None,
    fractions: Sequence[float] | None = None,
    chunk_size: int | None = None,
    domain: Domain | None = None,
    tolerance: float = TOLERANCE,
) -> dict[str, float]:
    """The means of DFFOT, COMP and SUFF over the rows; arguments as in `dffot`.

    >>> list(faithfulness(nn.Linear(3, 2), torch.randn(4, 3)))
    ['dffot', 'comprehensiveness', 'sufficiency']
    """
    removed, alone = _changes(
        model,
        x,
        explainer=explainer,
        baseline=baseline,
        fractions=fractions,
        chunk_size=chunk_size,
        domain=domain,
        tolerance=tolerance,
        keep=(False, True),
    )
    return {
        "dffot": float(removed[1].mean()),
        "comprehensiveness": float(removed[0].mean()),
        "sufficiency": float(alone[0].mean()),
    }


def _changes(
    model: nn.Module,
    x: Tensor,
    *,
    explainer: Explainer | None,
    baseline: float | Tensor | None,
    fractions: Sequence[float] | None,
    chunk_size: int | None,
    domain: Domain | None,
    keep: Sequence[bool],
    tolerance: float = TOLERANCE,
) -> list[tuple[Tensor, Tensor]]:
    """The mean change of f_c over K, and the smallest k/n that changes the prediction (1 = none), (N,) each.

    For each entry of `keep`: the top-k features are removed, or kept alone.
    """
    check_inputs(x)
    check_positive("tolerance", tolerance)
    explainer = Gradient() if explainer is None else explainer
    check_kind("explainer", explainer, Explainer, "r2et.explainers.Gradient()")
    explainer.check_shape(x)
    if isinstance(explainer, Activation):
        raise InputError(
            f"faithfulness removes input features, but {explainer!r} explains the neurons of a layer: use "
            "Gradient() or another explainer of inputs"
        )
    check_module(model)
    model, _ = under_threat(model, x, domain, None, inputs=explainer.inputs)
    if baseline is None:
        baseline = explainer.columns.typical if isinstance(explainer, ByColumns) else 0.0
    filler = _filler(baseline, x)
    most = _rows_at_once(x, chunk_size)
    rows = min(len(x), most)
    with measuring(model, x):
        logits = _logits(model, x, rows)
        parts = [
            [_changes_of_rows(ranked, filler, most=most, keep=flag, tolerance=tolerance) for flag in keep]
            for ranked in (
                _Ranked.of(model, *part, explainer=explainer, fractions=fractions)
                for part in zip(x.detach().split(rows), logits.split(rows), strict=True)
            )
        ]
    together = [zip(*results, strict=True) for results in zip(*parts, strict=True)]
    return [(torch.cat(change), torch.cat(flip)) for change, flip in together]


@dataclass(frozen=True)
class _Ranked:
    """Rows whose features are ranked, once for all that is removed from them."""

    model: nn.Module
    x: Tensor  # (N, *features)
    target: Tensor  # (N,)
    logits: Tensor  # (N, C)
    clean: Tensor  # probability of the target, or the output, (N,)
    place: Tensor  # of each value in the ranking, (N, *features)
    sizes: list[int]  # K
    n: int

    @classmethod
    def of(
        cls,
        model: nn.Module,
        x: Tensor,
        logits: Tensor,
        *,
        explainer: Explainer,
        fractions: Sequence[float] | None,
    ) -> "_Ranked":
        target = predicted_class(logits)
        ranks = ranking.ranks(explainer(model, x, target))
        n = ranks.shape[-1]
        place = explainer.spread(ranks, x)
        return cls(model, x, target, logits, presented(logits, target), place, _sizes(fractions, n), n)


def _changes_of_rows(
    rows: _Ranked, filler: Tensor, *, most: int, keep: bool, tolerance: float
) -> tuple[Tensor, Tensor]:
    """The mean change and the smallest share that flips, (N,) each; at most `most` inputs in one pass."""
    x, target, clean = rows.x, rows.target, rows.clean
    change, flip = torch.zeros_like(clean), torch.ones_like(clean)
    # several k share a pass when the rows alone do not fill it
    together = max(1, most // len(x))
    for first in range(0, len(rows.sizes), together):
        part = rows.sizes[first : first + together]
        points = torch.cat([torch.where((rows.place < k) != keep, filler, x) for k in part])
        with torch.no_grad():
            changed = rows.model(points)
        classes = target.repeat(len(part))
        moved = (presented(changed, classes) - clean.repeat(len(part))).abs()
        change += moved.reshape(len(part), -1).sum(0)
        share = torch.tensor(part, device=x.device, dtype=clean.dtype)[:, None] / rows.n
        flipped = ~same_prediction(changed, rows.logits.repeat(len(part), 1), tolerance).reshape(len(part), -1)
        flip = torch.minimum(flip, torch.where(flipped, share, 1.0).amin(0))
    return change / len(rows.sizes), flip


def _check_classes(y: Tensor, logits: Tensor) -> None:
    """Raise unless y (N,) are class numbers of a model with logits (N, C)."""
    if logits.shape[1] == 1:
        raise ModelError(f"an AUC is of classes, the model has one output: use r2et.metrics.r2; or, {ONE_LOGIT}")
    check_labels(y, len(logits), logits.shape[1])


def _logits(model: nn.Module, x: Tensor, rows: int) -> Tensor:
    with torch.no_grad():
        parts = [model(part) for part in x.split(rows)]
    if not isinstance(parts[0], Tensor) or parts[0].ndim != 2:
        check_logits(parts[0], min(rows, len(x)))
    # judged together: a single row of logits can look like probabilities by chance
    logits = torch.cat(parts).detach()
    check_logits(logits, len(x))
    return logits


def _sizes(fractions: Sequence[float] | None, n: int) -> list[int]:
    """K of App. B.1.4, ascending."""
    if fractions is None:
        return list(range(1, n + 1))
    listed = isinstance(fractions, Iterable) and not isinstance(fractions, str | Tensor)
    wanted = tuple(fractions) if listed else fractions
    values = [as_number(fraction) or 0.0 for fraction in wanted] if listed else []
    if not values or not all(0 < value <= 1 for value in values):
        raise InputError(
            f"fractions must be numbers above 0 and at most 1, such as (0.01, 0.05, 0.1), got {quoted(wanted)}"
        )
    return sorted({max(1, round(value * n)) for value in values})


def _filler(baseline: float | Tensor, x: Tensor) -> Tensor:
    """The baseline, in the shape of one input."""
    filler = check_baseline(baseline).to(x)
    try:
        return filler.expand(x.shape[1:])
    except RuntimeError:
        raise InputError(
            f"a baseline of shape {tuple(filler.shape)} does not fit inputs of shape {tuple(x.shape[1:])}: give a "
            "number, or one value per feature"
        ) from None


def _rows_at_once(x: Tensor, chunk_size: int | None) -> int:
    if chunk_size is not None:
        check_count("chunk_size", chunk_size)
        return int(chunk_size)
    return at_once(x[0].numel())
