"""Reasons: the columns that speak most for a class, with the person's own values, and how far they hold."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from r2et import ranking
from r2et.certificates import certify
from r2et.columns import Columns
from r2et.errors import InputError
from r2et.estimator.holding import holding_in_words
from r2et.estimator.lists import own_values
from r2et.estimator.phrases import checked_phrases, sentences
from r2et.estimator.ranges import alone, why_not_alone
from r2et.numerics.values import check_count, check_flag, check_names, quoted, suggestion

if TYPE_CHECKING:
    from r2et.estimator.classifier import StableClassifier


@dataclass(frozen=True)
class Wanted:
    """What is asked for, checked.

    Attributes:
        n: most reasons of a row.
        toward: the number of the class that reasons are for; None = the predicted one.
        exclude: numbers of the columns that are not named.
        phrases: sentences by column.
        proven: whether to prove how far the lists hold.
    """

    n: int
    toward: int | None
    exclude: tuple[int, ...]
    phrases: Mapping[str, str]
    proven: bool

    @classmethod
    def of(
        cls,
        fitted: "StableClassifier",
        n: int,
        *,
        toward: Any,
        exclude: Sequence[str] | None,
        phrases: Mapping[str, str] | None,
        proven: bool,
    ) -> "Wanted":
        """For a fitted classifier; a name that it does not know is an error that suggests another."""
        check_count("n", n)
        check_flag("proven", proven)
        names = fitted.encoding_.column_names
        left_out = check_names("exclude", () if exclude is None else exclude)
        for name in left_out:
            if name not in names:
                raise InputError(f"exclude has no column {name!r} to leave out{suggestion(name, names[:40])}")
        if len(left_out) == len(names):
            raise InputError(f"exclude has all {len(names)} columns: there is nothing left to name")
        return cls(
            int(n),
            None if toward is None else _class_number(toward, fitted.classes_.tolist()),
            tuple(names.index(name) for name in left_out),
            checked_phrases(phrases, names),
            bool(proven),
        )


class _Lists(NamedTuple):
    """The lists of N rows that can be explained, M reasons altogether.

    Attributes:
        target: the class of each list, (N,).
        contributions: of every column, (N, columns).
        row, column, rank: of each reason, row by row, (M,).
        passed_over: of each excluded column how many lists would have named it.
    """

    target: Tensor
    contributions: Tensor
    row: Tensor
    column: Tensor
    rank: Tensor
    passed_over: dict[int, int]


class _Proof(NamedTuple):
    """What is proven of N lists.

    Attributes:
        radius: (N,), NaN where nothing is proven.
        method: of the proof.
        why_not: nothing is proven, where it is so.
        alone: between which values each number may move alone, (N, columns) each; None = that is not known.
    """

    radius: Tensor
    method: str | None
    why_not: str | None
    alone: tuple[Tensor, Tensor] | None = None


def reasons_of(fitted: "StableClassifier", x: Tensor, frame: pd.DataFrame, wanted: Wanted) -> pd.DataFrame:
    """What `StableClassifier.reasons` returns, for encoded rows x (N, n) of a frame."""
    exists = can_exist(x, fitted.contributions_.columns)
    there = exists.numpy()
    labels = frame.index.to_numpy()
    explained, x, own = labels[there], x[exists], frame[there]
    if not len(x):
        lists, proof = _nothing(len(fitted.encoding_.columns)), _Proof(torch.zeros(0), None, "there are no rows")
    else:
        lists = _lists(fitted, x, wanted)
        proof = _proof(fitted, x, lists, wanted)
    table = _table(fitted, x, own, lists=lists, proof=proof, wanted=wanted)
    empty = np.bincount(lists.row.numpy(), minlength=len(x)) == 0
    table.attrs = {
        "rows_without_reasons": explained[empty].tolist(),
        "rows_not_explained": labels[~there].tolist(),
        "excluded": {fitted.encoding_.column_names[i]: count for i, count in lists.passed_over.items()},
        "background": fitted.background_.sha256,
        "proof": {"method": proof.method, "why_not": proof.why_not},
    }
    return table


def can_exist(x: Tensor, columns: Columns) -> Tensor:
    """Whether each row of x (N, n) has a known value of every flag and category, bool (N,)."""
    known = torch.ones(len(x), dtype=torch.bool)
    for features, kind in zip(columns.features, columns.kinds, strict=True):
        part = x[:, list(features)]
        if kind != "number":
            known &= ((part == 0) | (part == 1)).all(1)
        if kind == "category":
            known &= part.sum(1) == 1
    return known


def _lists(fitted: "StableClassifier", x: Tensor, wanted: Wanted) -> _Lists:
    toward = None if wanted.toward is None else torch.full((len(x),), wanted.toward)
    _, target, values = fitted.contributions_.explained(fitted.model_, x, toward)
    n = values.shape[1]
    left_out = list(wanted.exclude)
    kept = values.index_fill(1, torch.tensor(left_out, dtype=torch.int64), 0.0)
    top = ranking.top_k(kept, min(wanted.n, n))
    row, rank = (kept.gather(1, top) > 0).nonzero(as_tuple=True)
    passed_over = {}
    if left_out:
        named = ranking.list_mask(values, min(wanted.n, n), positive=True)
        passed_over = dict(zip(left_out, named[:, left_out].sum(0).tolist(), strict=True))
    return _Lists(target, values, row, top[row, rank], rank, passed_over)


def _nothing(columns: int) -> _Lists:
    none = torch.zeros(0, dtype=torch.int64)
    return _Lists(none, torch.zeros(0, columns), none, none, none, {})


def _proof(fitted: "StableClassifier", x: Tensor, lists: _Lists, wanted: Wanted) -> _Proof:
    explainer = fitted.contributions_
    nothing = torch.full((len(x),), torch.nan, dtype=torch.float64)
    if not wanted.proven:
        return _Proof(nothing, None, "not asked for (proven=False)")
    classes = len(fitted.classes_)
    if classes > 2:
        return _Proof(nothing, None, f"the log-odds of {classes} classes are no sum over columns")
    n = lists.contributions.shape[1]
    k = min(wanted.n, n - 1)
    names = fitted.encoding_.column_names
    explainer = replace(explainer, exclude=tuple(names[i] for i in wanted.exclude))
    try:
        certificate = certify(fitted.model_, x, k, explainer=explainer, domain=fitted.domain_, target=lists.target)
    except InputError as error:  # this network has no certificate of contributions
        return _Proof(nothing, None, str(error).replace(str(explainer), "contributions"))
    count = torch.bincount(lists.row, minlength=len(x))
    # of all columns that speak for a class, one less than all are proven: whether the last one joins is not
    unsure = (
        (count >= n - 1) if wanted.n >= n and not wanted.exclude else torch.zeros_like(count, dtype=torch.bool)
    )
    further = None
    if why_not_alone(fitted.model_, len(fitted.classes_)) is None:
        listed = torch.zeros_like(lists.contributions, dtype=torch.bool)
        listed[lists.row, lists.column] = True
        kept = lists.contributions.masked_fill(explainer.left_out, 0.0)
        further = alone(
            fitted.model_,
            x,
            kept,
            listed,
            target=lists.target,
            columns=explainer.columns,
            domain=fitted.domain_,
        )
    return _Proof(certificate.radius.masked_fill(unsure, torch.nan), certificate.method, None, further)


def _table(
    fitted: "StableClassifier", x: Tensor, frame: pd.DataFrame, *, lists: _Lists, proof: _Proof, wanted: Wanted
) -> pd.DataFrame:
    row, column = lists.row.numpy(), lists.column.numpy()
    names = np.array(fitted.encoding_.column_names, dtype=object)[column]
    values = np.array(own_values(frame, row, column), dtype=object)
    classes = np.array([str(label) for label in fitted.classes_.tolist()], dtype=object)
    toward = classes[lists.target.numpy()[row]]
    radius = proof.radius.double().numpy()[row]
    return pd.DataFrame(
        {
            "row": frame.index.to_numpy()[row],
            "rank": lists.rank.numpy() + 1,
            "column": names,
            "value": values,
            "contribution": lists.contributions[lists.row, lists.column].double().numpy(),
            "direction": "speaks for " + toward if len(toward) else toward,
            "holds_within": radius,
            "holds_within_units": _in_units(fitted, x, lists, values, proof),
            "text": sentences(names, values, toward, wanted.phrases),
        }
    )


def _in_units(
    fitted: "StableClassifier",
    x: Tensor,
    lists: _Lists,
    values: NDArray[np.object_],
    proof: _Proof,
) -> NDArray[np.object_]:
    """How far the value of each reason may move alone, in words (M,)."""
    first = torch.tensor([features[0] for features in fitted.encoding_.as_columns.features])
    encoded, radius = x[lists.row, first[lists.column]], proof.radius[lists.row]
    # what may be moved together with others may be moved alone
    lower, upper = encoded - radius, encoded + radius
    if proof.alone is not None:
        further = [ends[lists.row, lists.column] for ends in proof.alone]
        lower, upper = torch.fmin(lower, further[0]), torch.fmax(upper, further[1])
    told = [
        holding_in_words(fitted.encoding_.columns[c], text, at, (least, most))
        for c, text, at, least, most in zip(
            lists.column.tolist(), values, encoded.tolist(), lower.tolist(), upper.tolist(), strict=True
        )
    ]
    return np.array(told, dtype=object)


def _class_number(toward: Any, classes: list[Any]) -> int:
    """The class of a label, or of its text, as a command line has it."""
    texts = [str(label) for label in classes]
    if isinstance(toward, bool | str | int | float | np.generic):
        plain = toward.item() if isinstance(toward, np.generic) else toward
        for number, label in enumerate(classes):
            if type(label) is type(plain) and label == plain:
                return number
        if str(plain) in texts:
            return texts.index(str(plain))
    raise InputError(f"toward={quoted(toward)} is none of the classes{suggestion(str(toward), texts)}")
