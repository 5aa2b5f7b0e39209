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
from r2et.domain import in_plausible_units
from r2et.errors import InputError
from r2et.estimator.holding import holding_in_words
from r2et.estimator.lists import own_values
from r2et.estimator.phrases import checked_phrases, sentences
from r2et.estimator.ranges import alone, why_not_alone
from r2et.estimator.sides import Sides
from r2et.explainers import Contributions
from r2et.numerics.values import check_count, check_flag, check_names, suggestion
from r2et.tables.plausible import Plausible, as_json, parse_plausible

if TYPE_CHECKING:
    from r2et.estimator.stable import StableEstimator


@dataclass(frozen=True)
class Wanted:
    """What is asked for, checked.

    Attributes:
        n: most reasons of a row.
        toward: the number of the output that reasons are for; None = the predicted class.
        exclude: numbers of the columns that are not named.
        phrases: sentences by column.
        proven: whether to prove how far the lists hold.
        plausible: one plausible change of each number, if proofs are to be told in them too.
    """

    n: int
    toward: int | None
    exclude: tuple[int, ...]
    phrases: Mapping[str, str]
    proven: bool
    plausible: Mapping[str, Plausible] | None = None

    @classmethod
    def of(cls, fitted: "StableEstimator", sides: Sides, n: int, toward: Any, **options: Any) -> "Wanted":
        """For a fitted estimator; a name that it does not know is an error that suggests another.

        Args:
            fitted: the estimator.
            sides: what reasons can be for.
            n: most reasons of a row.
            toward: one of the sides; None = the predicted class.
            options: exclude, phrases, proven, plausible of `StableClassifier.reasons`.
        """
        check_count("n", n)
        check_flag("proven", options["proven"])
        encoding, plausible = fitted.encoding_, options["plausible"]
        return cls(
            int(n),
            None if toward is None else sides.number(toward),
            _left_out(options["exclude"], encoding.column_names),
            checked_phrases(options["phrases"], encoding.column_names),
            bool(options["proven"]),
            None if plausible is None else parse_plausible(plausible, encoding.plausible, encoding.column_names),
        )


def _left_out(exclude: Sequence[str] | None, names: list[str]) -> tuple[int, ...]:
    left_out = check_names("exclude", () if exclude is None else exclude)
    for name in left_out:
        if name not in names:
            raise InputError(f"exclude has no column {name!r} to leave out{suggestion(name, names[:40])}")
    if len(left_out) == len(names):
        raise InputError(f"exclude has all {len(names)} columns: there is nothing left to name")
    return tuple(names.index(name) for name in left_out)


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
        plausible: the radius in multiples of plausible change (N,), if that is asked for.
        alone: between which values each number may move alone, (N, columns) each; None = that is not known.
    """

    radius: Tensor
    method: str | None
    why_not: str | None
    plausible: Tensor | None = None
    alone: tuple[Tensor, Tensor] | None = None


def reasons_of(
    fitted: "StableEstimator", sides: Sides, x: Tensor, frame: pd.DataFrame, wanted: Wanted
) -> pd.DataFrame:
    """What `reasons` of an estimator returns, for encoded rows x (N, n) of a frame."""
    exists = can_exist(x, fitted.contributions_.columns)
    there = exists.numpy()
    labels = frame.index.to_numpy()
    explained, x, own = labels[there], x[exists], frame[there]
    if not len(x):
        lists, proof = _nothing(len(fitted.encoding_.columns)), _unproven(0, "there are no rows")
    else:
        lists = _lists(fitted, sides, x, wanted)
        proof = _proof(fitted, sides, x, lists, wanted)
    table = _table(fitted, sides, x, own, lists=lists, proof=proof, wanted=wanted)
    empty = np.bincount(lists.row.numpy(), minlength=len(x)) == 0
    table.attrs = {
        "rows_without_reasons": explained[empty].tolist(),
        "rows_not_explained": labels[~there].tolist(),
        "excluded": {fitted.encoding_.column_names[i]: count for i, count in lists.passed_over.items()},
        "background": fitted.background_.sha256,
        "proof": {"method": proof.method, "why_not": proof.why_not},
        "plausible": None if wanted.plausible is None else as_json(wanted.plausible),
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


def _lists(fitted: "StableEstimator", sides: Sides, x: Tensor, wanted: Wanted) -> _Lists:
    toward = None if wanted.toward is None else torch.full((len(x),), wanted.toward)
    _, target, values = fitted.contributions_.explained(sides.model, x, toward)
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


def _unproven(rows: int, why_not: str) -> _Proof:
    nothing = torch.full((rows,), torch.nan, dtype=torch.float64)
    return _Proof(nothing, None, why_not, nothing)


def _proof(fitted: "StableEstimator", sides: Sides, x: Tensor, lists: _Lists, wanted: Wanted) -> _Proof:
    if not wanted.proven:
        return _unproven(len(x), "not asked for (proven=False)")
    if fitted.outputs > 2:
        return _unproven(len(x), f"the log-odds of {fitted.outputs} classes are no sum over columns")
    names = fitted.encoding_.column_names
    explainer = replace(fitted.contributions_, exclude=tuple(names[i] for i in wanted.exclude))
    k = min(wanted.n, len(names) - 1)
    try:
        certificate = certify(sides.model, x, k, explainer=explainer, domain=fitted.domain_, target=lists.target)
        plausible = None
        if wanted.plausible is not None:
            domain = replace(fitted.domain_, scale=fitted.encoding_.scale(wanted.plausible))
            model, z, domain = in_plausible_units(sides.model, x, domain)
            explainer_in_units = explainer.in_units(model.scale)
            counted = certify(model, z, k, explainer=explainer_in_units, domain=domain, target=lists.target)
            plausible = counted.radius
    except InputError as error:  # this network has no certificate of contributions
        return _unproven(len(x), str(error).replace(str(explainer), "contributions"))
    unsure = _unsure(lists, len(x), wanted)
    return _Proof(
        certificate.radius.masked_fill(unsure, torch.nan),
        certificate.method,
        None,
        None if plausible is None else plausible.masked_fill(unsure, torch.nan),
        _alone(fitted, sides, x, lists, explainer),
    )


def _unsure(lists: _Lists, rows: int, wanted: Wanted) -> Tensor:
    """Lists of all columns, or of all but one: whether the last one joins is not part of a proof."""
    columns = lists.contributions.shape[1]
    count = torch.bincount(lists.row, minlength=rows)
    everything = wanted.n >= columns and not wanted.exclude
    return count >= columns - 1 if everything else torch.zeros_like(count, dtype=torch.bool)


def _alone(
    fitted: "StableEstimator", sides: Sides, x: Tensor, lists: _Lists, explainer: Contributions
) -> tuple[Tensor, Tensor] | None:
    """Between which values each listed number may move alone, if that is known."""
    if why_not_alone(sides.model, len(sides.names)) is not None:
        return None
    listed = torch.zeros_like(lists.contributions, dtype=torch.bool)
    listed[lists.row, lists.column] = True
    return alone(
        sides.model,
        x,
        lists.contributions.masked_fill(explainer.left_out, 0.0),
        listed,
        target=lists.target,
        columns=explainer.columns,
        domain=fitted.domain_,
    )


def _table(
    fitted: "StableEstimator",
    sides: Sides,
    x: Tensor,
    frame: pd.DataFrame,
    *,
    lists: _Lists,
    proof: _Proof,
    wanted: Wanted,
) -> pd.DataFrame:
    row, column = lists.row.numpy(), lists.column.numpy()
    names = np.array(fitted.encoding_.column_names, dtype=object)[column]
    values = np.array(own_values(frame, row, column), dtype=object)
    target = lists.target.numpy()[row]
    toward = np.array(sides.texts, dtype=object)[target]
    directions = np.array(sides.directions, dtype=object)[target]
    contributions = lists.contributions[lists.row, lists.column].double().numpy() * sides.unit
    parts = {
        "row": frame.index.to_numpy()[row],
        "rank": lists.rank.numpy() + 1,
        "column": names,
        "value": values,
        "contribution": contributions,
        "direction": directions,
        "holds_within": proof.radius.double().numpy()[row],
        "holds_within_units": _in_units(fitted, x, lists, values, proof),
    }
    if wanted.plausible is not None:
        assert proof.plausible is not None
        parts["holds_within_plausible"] = proof.plausible.double().numpy()[row]
    known = [
        {"column": name, "value": value, "toward": label, "direction": direction}
        for name, value, label, direction in zip(names, values, toward, directions, strict=True)
    ]
    return pd.DataFrame({**parts, "text": sentences(known, wanted.phrases)})


def _in_units(
    fitted: "StableEstimator",
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
