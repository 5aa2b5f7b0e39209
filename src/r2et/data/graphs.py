"""The pipeline that every set of graphs goes through: split by person, standardise edges on train, make pairs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from r2et.data.base import Dataset, Split
from r2et.data.layouts import GraphLayout
from r2et.data.pairs import PAIR_CLASSES, DrawnPairs, PairCounts, Pool, draw_held_out_pairs
from r2et.domain import Domain
from r2et.tables.splits import FRACTIONS, split_groups

if TYPE_CHECKING:
    from r2et.data.catalogue import Info


def graph_dataset(
    info: "Info",
    edges: NDArray[np.float64],
    y: NDArray[np.int64],
    class_names: Sequence[str],
    regions: Sequence[str],
    *,
    seed: int,
    pairs: PairCounts | None,
    groups: ArrayLike | None = None,
    fractions: Sequence[float] = FRACTIONS,
    limits: tuple[float, float] | None = None,
) -> Dataset:
    """A data set of graphs, each one the vector of its edge weights.

    Args:
        info: name, texts and preset k.
        edges: (M, n), the upper triangle of each matrix, row by row.
        y: class numbers (M,).
        class_names: one per class.
        regions: names of the R nodes, R (R - 1) / 2 = n.
        seed: of the split and of the pairs.
        pairs: how many to make (App. B.1): two training graphs, or a held-out graph with a training graph. None:
            single graphs.
        groups: the person of each graph (M,), if people have several.
        fractions: of the graphs in train, validation and test.
        limits: the values that an edge can have; None: what was seen in train.
    """
    rows = split_groups(y, groups, fractions=fractions, seed=seed, what=info.name)
    mean, spread = edges[rows[0]].mean(0), edges[rows[0]].std(0)
    # an edge that is constant in train has nothing to be divided by
    scale = np.where(spread > 0, spread, 1.0)
    x = torch.from_numpy((edges - mean) / scale).float()
    labels = torch.from_numpy(y)
    layout = GraphLayout(tuple(regions), torch.from_numpy(mean).float(), torch.from_numpy(scale).float())
    numbers = [torch.from_numpy(part) for part in rows]
    if limits is None:
        lower, upper = x[numbers[0]].amin(0), x[numbers[0]].amax(0)
    else:
        lower, upper = (torch.from_numpy((limit - mean) / scale).float() for limit in limits)

    train, validation, test = (Split(x[part], labels[part]) for part in numbers)
    singles = Dataset(
        name=info.name,
        train=train,
        validation=validation,
        test=test,
        feature_names=layout.names,
        class_names=tuple(class_names),
        domain=Domain(lower=lower, upper=upper),
        k=info.k,
        description=info.description,
        citation=info.citation,
        licence=info.licence,
        kind=info.kind,
        layout=layout,
    )
    if pairs is None:
        return singles
    pools = [Pool(x[part], labels[part], part) for part in numbers]
    return replace(
        singles,
        train=DrawnPairs.from_pool(pools[0], pairs.train, seed),
        validation=draw_held_out_pairs(pools[1], pools[0], pairs.validation, np.random.default_rng([seed, 1])),
        test=draw_held_out_pairs(pools[2], pools[0], pairs.test, np.random.default_rng([seed, 2])),
        class_names=PAIR_CLASSES,
        inputs=2,
        member_class_names=tuple(class_names),
    )
