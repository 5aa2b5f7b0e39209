"""Contributions: interventional Shapley values of a score over the columns of a table."""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from r2et.columns import check_rows_exist
from r2et.errors import InputError
from r2et.explainers.background import Background
from r2et.explainers.by_columns import ByColumns
from r2et.explainers.explainer import EXPLAINERS, Reduce
from r2et.numerics.memory import VALUES, at_once
from r2et.numerics.values import check_kind, is_whole, quoted
from r2et.scores import score


@runtime_checkable
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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_kind("background", self.background, Background, "r2et.explainers.Background.from_rows(x, columns)")
        for name, value, least in (("pairs", self.pairs, 1), ("seed", self.seed, 0)):
            if not is_whole(value) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {name}={quoted(value)}")
        try:
            check_rows_exist(self.background.tensor, self.columns)
        except InputError as error:
            raise InputError(f"the background does not fit the columns: {error}") from error

    @property
    def positive(self) -> bool:
        """A list of reasons for the class names what speaks for it; ranked by magnitude, it names both."""
        return self.reduce == "signed"

    @property
    def permutations(self) -> Tensor:
        """Orders in which columns are put into a row, int64 (permutations, columns)."""
        return _coalitions(len(self.columns), self.pairs, self.seed).orders

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
        if create_graph:
            x, logits = self.only_numbers_move(x), None
        with torch.set_grad_enabled(create_graph):
            background = self.background.tensor.to(x)
            classes = 2 if logits is None else logits.shape[1]
            if isinstance(model, InParts) and self.score in ("log-odds", "margin", "logit", "output"):
                parts = model.parts(x)
                classes = parts.shape[1]
                if classes <= 2 or self.score == "logit":
                    return self._read_off(parts - model.parts(background).mean(0), target)
            logits = model(x) if logits is None else logits
            return self._sampled(model, x, target, logits, background)

    def _read_off(self, parts: Tensor, target: Tensor) -> Tensor:
        """Contributions (N, columns) from what each feature adds to each logit, (N, C, n)."""
        rows = torch.arange(len(parts), device=parts.device)
        own = parts[rows, target]
        if self.score != "logit" and parts.shape[1] > 1:
            own = own - parts[rows, 1 - target]
        owner = self.columns.owner.to(parts.device)
        return own.new_zeros(len(parts), len(self.columns)).index_add(1, owner, own)

    def _sampled(self, model: nn.Module, x: Tensor, target: Tensor, logits: Tensor, background: Tensor) -> Tensor:
        coalitions = _coalitions(len(self.columns), self.pairs, self.seed)
        weights = coalitions.weights.to(x)
        # with no column of x in it, a row is the background's own: one value for each class
        nobody = model(background)
        of_class = torch.stack(
            [
                score(self.score, nobody, torch.full_like(target[:1], c).expand(len(nobody)))
                for c in range(nobody.shape[1])
            ]
        ).mean(1)
        result = of_class[target][:, None] * weights[0] + score(self.score, logits, target)[:, None] * weights[-1]
        features = coalitions.members[1:-1].to(x.device)[:, self.columns.owner.to(x.device)]
        if not len(features):
            return result
        few_sets = max(1, VALUES // background.numel())
        # as many sets at once as there is room for, and then as many rows
        for sets, share in zip(features.split(few_sets), weights[1:-1].split(few_sets), strict=True):
            size = at_once(len(sets) * background.numel())
            values = torch.cat(
                [
                    self._values(model, rows, classes, sets, background)
                    for rows, classes in zip(x.split(size), target.split(size), strict=True)
                ]
            )
            result = result + values @ share
        return result

    def _values(self, model: nn.Module, x: Tensor, target: Tensor, sets: Tensor, background: Tensor) -> Tensor:
        """Mean scores (N, M) of rows x (N, n) on sets of features, bool (M, n), and the background elsewhere."""
        rows = torch.where(sets[None, :, None], x[:, None, None], background)
        count = len(sets) * len(background)
        scores = score(self.score, model(rows.flatten(0, 2)), target.repeat_interleave(count))
        return scores.reshape(len(x), len(sets), len(background)).mean(2)


class _Coalitions(NamedTuple):
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
def _coalitions(columns: int, pairs: int, seed: int) -> _Coalitions:
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
    return _Coalitions(torch.from_numpy(orders), torch.from_numpy(members), torch.from_numpy(weights))
