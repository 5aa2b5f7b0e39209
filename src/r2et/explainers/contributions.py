"""Contributions: interventional Shapley values of a score over the columns of a table."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from r2et.columns import check_rows_exist
from r2et.domain import InUnits, WithoutGauge
from r2et.errors import InputError
from r2et.explainers.background import Background
from r2et.explainers.by_columns import ByColumns
from r2et.explainers.explainer import EXPLAINERS, Reduce
from r2et.numerics.memory import VALUES, at_once
from r2et.numerics.values import check_choice, check_kind, check_names, is_whole, quoted
from r2et.scores import Score, score

#: values that a model keeps of each feature of a row while it takes itself apart
PARTS = 64
#: a contribution of so many roundings of a score is none
FAINT = 16
#: by how many roundings parts may miss a difference of logits
ROUNDING = 256


class InParts(Protocol):
    """A model whose logits are a sum over features: contributions to differences of logits are read off it."""

    def parts(self, x: Tensor) -> Tensor:
        """What each feature adds to each logit, (N, C, n) of rows (N, n); the rest of a logit is a constant."""
        ...


@EXPLAINERS.register("contributions")
@dataclass(frozen=True, kw_only=True)
class Contributions(ByColumns):
    """What each column adds to the score of a row, beside the mean score of a background.

    phi_c is the mean over permutations of the columns and over background rows b of

        s(x on the columns up to c, b elsewhere) - s(the same without c).

    Only rows that can exist are evaluated. The contributions of a row add up to s(x) - mean s(b), whatever the
    permutations. They are fixed, by `seed`, and each comes with its reverse: that is exact for models in which
    at most two columns interact, so for linear and additive ones; a table of three columns or fewer has all of
    them. It is differentiable by the numbers and by the parameters, with first derivatives of the score; discrete
    columns do not move.

    What they do not tell: a column is replaced as if the others did not depend on it, so of columns that go
    together some rows that are evaluated hardly occur; and another background gives other contributions.

    Args:
        columns: how the features of x (N, n) make up columns.
        background: rows of the same columns.
        pairs: how many permutations are drawn, each with its reverse.
        seed: of the permutations.
        reduce: "signed" lists the columns that add most to the score, and only those that add anything: a list
            may be shorter than k. "abs" ranks them by magnitude.
        exclude: names of columns that no list may name. The model still uses them, and what the others contribute
            is the same; they have 0.

    >>> from r2et.columns import Columns
    >>> columns = Columns(("age", "job"), ((0,), (1, 2)), ("number", "category"), ((), (0.25, 0.75)))
    >>> model = nn.Linear(3, 2, bias=False)
    >>> model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [0.5, 4.0, 8.0]])
    >>> explainer = Contributions(columns=columns, background=Background(((0.0, 0.0, 1.0),)))
    >>> explainer(model, torch.tensor([[2.0, 1.0, 0.0]]))
    tensor([[ 1., -4.]])
    """

    background: Background
    pairs: int = 8
    seed: int = 0
    reduce: Reduce = "signed"
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("background", self.background, Background, "r2et.explainers.Background.from_rows(x, columns)")
        for name, value, least in (("pairs", self.pairs, 1), ("seed", self.seed, 0)):
            if not is_whole(value) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {name}={quoted(value)}")
        object.__setattr__(self, "exclude", check_names("exclude", self.exclude))
        for name in self.exclude:
            check_choice("column in exclude", name, self.columns.names)
        try:
            check_rows_exist(self.background.tensor, self.columns)
        except InputError as error:
            raise InputError(f"the background does not fit the columns: {error}") from error

    def in_units(self, scale: Tensor) -> "Contributions":
        """The same with the background in these units: contributions do not depend on them."""
        return replace(self, background=Background(self.background.tensor / scale.detach().cpu().double()))

    @property
    def positive(self) -> bool:
        """A list of reasons for the class names what speaks for it; ranked by magnitude, it names both."""
        return self.reduce == "signed"

    @property
    def permutations(self) -> Tensor:
        """Orders in which columns are put into a row, int64 (permutations, columns)."""
        return self.coalitions.orders

    @property
    def coalitions(self) -> "Coalitions":
        """The sets of columns whose values make up contributions, and how."""
        return coalitions(len(self.columns), self.pairs, self.seed)

    def never(self, x: Tensor) -> Tensor:
        """Which columns are on no list of rows x (N, n), bool (N, columns).

        Those that are excluded, and discrete ones that are as in all of the background: putting such a column in
        changes nothing, whatever the model and the numbers, and its contribution is zero.
        """
        rows = self.background.tensor.to(x)
        differs = (x != rows[0]) | (rows != rows[0]).any(0)
        owner = self.columns.owner.to(x.device)
        count = x.new_zeros(len(x), len(self.columns)).index_add(1, owner, differs.to(x))
        numbers = torch.tensor([kind == "number" for kind in self.columns.kinds], device=x.device)
        return ((count == 0) & ~numbers) | self.left_out.to(x.device)

    @property
    def left_out(self) -> Tensor:
        """Which columns are excluded, bool (columns,)."""
        return torch.tensor([name in self.exclude for name in self.columns.names])

    def attribute(
        self,
        model: nn.Module,
        x: Tensor,
        target: Tensor,
        *,
        create_graph: bool = False,
        logits: Tensor | None = None,
    ) -> Tensor:
        """Signed contributions (N, columns)."""
        if isinstance(model, WithoutGauge):
            # every row that is evaluated exists: there is no gauge to take away
            model = model.model
        if create_graph:
            x = self.only_numbers_move(x)
        with torch.set_grad_enabled(create_graph):
            background = self.background.tensor.to(x)
            logits = model(x) if logits is None else logits
            # rounding would put a column on the list that says nothing
            never = self.never(x)
            if (own := self._in_parts(model, logits)) is not None:
                size = at_once(x.shape[1], copies=PARTS)
                parts = [
                    self._read_off(own, rows, classes, background)
                    for rows, classes in zip(x.split(size), target.split(size), strict=True)
                ]
                result = torch.cat(parts)
                if self._complete(result, model, target, logits, background):
                    return result.masked_fill(never, 0.0)
            # those that were handed over may follow discrete columns
            logits = model(x) if create_graph else logits
            return self._sampled(model, x, target, logits, background).masked_fill(never, 0.0)

    def _in_parts(self, model: nn.Module, logits: Tensor) -> InParts | None:
        """The model, where it says that the score is a sum over features."""
        sums = ("log-odds", "margin", "output")
        additive = self.score == "logit" or (self.score in sums and logits.shape[1] <= 2)
        own = model.model if isinstance(model, InUnits) else model
        # a module of that name would be somebody's layer
        told = additive and callable(getattr(type(own), "parts", None))
        return cast(InParts, model) if told else None

    def _read_off(self, model: InParts, x: Tensor, target: Tensor, background: Tensor) -> Tensor:
        """Contributions (N, columns) from what each feature adds to each logit."""
        parts = model.parts(x) - model.parts(background).mean(0)
        rows = torch.arange(len(parts), device=parts.device)
        own = parts[rows, target]
        if self.score != "logit" and parts.shape[1] > 1:
            own = own - parts[rows, 1 - target]
        owner = self.columns.owner.to(parts.device)
        result = own.new_zeros(len(parts), len(self.columns)).index_add(1, owner, own)
        return _without_rounding(result, parts.detach().abs().amax((1, 2)))

    def _complete(
        self, contributions: Tensor, model: nn.Module, target: Tensor, logits: Tensor, background: Tensor
    ) -> bool:
        """Whether contributions add up to what the model gives: a subclass, a hook may have changed it."""
        if torch.compiler.is_compiling():
            return True
        with torch.no_grad():
            nobody = model(background)
            expected = score(self.score, logits, target) - _by_class(self.score, nobody)[target]
            size = contributions.abs().sum(1) + logits.abs().amax(1) + nobody.abs().amax()
            error = (contributions.sum(1) - expected).abs()
            return bool((error <= ROUNDING * torch.finfo(size.dtype).eps * size).all())

    def _sampled(self, model: nn.Module, x: Tensor, target: Tensor, logits: Tensor, background: Tensor) -> Tensor:
        chosen = coalitions(len(self.columns), self.pairs, self.seed)
        weights = chosen.weights.to(x)
        # with no column of x in it, a row is the background's own: one value for each class
        nobody = model(background)
        of_class = _by_class(self.score, nobody)
        result = of_class[target][:, None] * weights[0] + score(self.score, logits, target)[:, None] * weights[-1]
        features = chosen.members[1:-1].to(x.device)[:, self.columns.owner.to(x.device)]
        size = torch.maximum(of_class.abs().amax(), score(self.score, logits, target).abs()).detach()
        if not len(features):
            return _without_rounding(result, size)
        few_sets = max(1, VALUES // background.numel())
        # as many sets at once as there is room for, and then as many rows
        for sets, share in zip(features.split(few_sets), weights[1:-1].split(few_sets), strict=True):
            few_rows = at_once(len(sets) * background.numel())
            values = torch.cat(
                [
                    self._values(model, rows, classes, sets, background)
                    for rows, classes in zip(x.split(few_rows), target.split(few_rows), strict=True)
                ]
            )
            result = result + values @ share
            size = torch.maximum(size, values.detach().abs().amax(1))
        return _without_rounding(result, size)

    def _values(self, model: nn.Module, x: Tensor, target: Tensor, sets: Tensor, background: Tensor) -> Tensor:
        """Mean scores (N, M) of rows x (N, n) on sets of features, bool (M, n), and the background elsewhere."""
        rows = torch.where(sets[None, :, None], x[:, None, None], background)
        count = len(sets) * len(background)
        scores = score(self.score, model(rows.flatten(0, 2)), target.repeat_interleave(count))
        return scores.reshape(len(x), len(sets), len(background)).mean(2)


def _without_rounding(contributions: Tensor, size: Tensor) -> Tensor:
    """Contributions (N, columns) to scores of some size (N,): 0, with its slope, where there is rounding alone.

    What adds nothing must not be listed as if it did.
    """
    faint = contributions.detach().abs() <= FAINT * torch.finfo(size.dtype).eps * size[:, None]
    return contributions - torch.where(faint, contributions.detach(), 0.0)


def _by_class(name: Score, logits: Tensor) -> Tensor:
    """The mean score of each class over rows with logits (B, C), (C,)."""
    classes = torch.arange(logits.shape[1], device=logits.device)
    return torch.stack([score(name, logits, c.expand(len(logits))) for c in classes]).mean(1)


class Coalitions(NamedTuple):
    """The sets of columns that permutations pass through.

    Attributes:
        orders: the permutations, int64 (P, columns).
        members: M sets, bool (M, columns); the first is empty, the last has every column.
        weights: contributions = values of the sets (N, M) @ weights, float64 (M, columns).
    """

    orders: Tensor
    members: Tensor
    weights: Tensor


@lru_cache(maxsize=32)
def coalitions(columns: int, pairs: int, seed: int) -> Coalitions:
    """The sets of some columns; for few of them of all permutations, else of pairs that are drawn."""
    if math.factorial(min(columns, 20)) <= 2 * pairs:
        orders = np.array(list(itertools.permutations(range(columns))), dtype=np.int64)
    else:
        generator = np.random.default_rng(seed)
        drawn = np.stack([generator.permutation(columns) for _ in range(pairs)])
        orders = np.stack([drawn, drawn[:, ::-1]], 1).reshape(-1, columns)
    # place[p, c] is when column c comes in: it is in the sets after that
    place = orders.argsort(1)
    prefixes = place[:, None, :] < np.arange(columns + 1)[None, :, None]
    members, which = np.unique(prefixes.reshape(-1, columns), axis=0, return_inverse=True)
    which = which.reshape(len(orders), columns + 1)
    weights = np.zeros((len(members), columns))
    for order, sets in zip(orders, which, strict=True):
        np.add.at(weights, (sets[1:], order), 1 / len(orders))
        np.add.at(weights, (sets[:-1], order), -1 / len(orders))
    return Coalitions(torch.from_numpy(orders), torch.from_numpy(members), torch.from_numpy(weights))
