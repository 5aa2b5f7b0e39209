"""The lists that an estimator hands over: one row of a frame for each column that a list names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor, nn

from r2et import ranking
from r2et.certificates import certify
from r2et.domain import Domain
from r2et.enclosure.problems import why_uncertified
from r2et.explainers import Explainer
from r2et.individuality import Individuality
from r2et.tables.columns import as_text


def listed(
    model: nn.Module,
    x: Tensor,
    k: int,
    *,
    frame: pd.DataFrame,
    names: Sequence[str],
    explainer: Explainer,
    domain: Domain,
    radius: bool,
) -> pd.DataFrame:
    """What `StableClassifier.explain` returns.

    Args:
        model: maps encoded rows (N, n) to logits (N, C).
        x: encoded rows (N, n).
        k: how many columns a list names.
        frame: the same rows as a person has them.
        names: of the columns that are ranked.
        explainer: that ranks them.
        domain: what exists.
        radius: certify the lists too.
    """
    _, predicted, scores = explainer.explained(model, x)
    top = ranking.top_k(scores, k)
    places = np.repeat(np.arange(len(x)), k)
    parts: dict[str, Any] = {
        "row": frame.index.to_numpy()[places],
        "rank": np.tile(np.arange(1, k + 1), len(x)),
        "column": np.array(names, dtype=object)[top.numpy()].ravel(),
        "value": own_values(frame, places, top.numpy().ravel()),
        "score": scores.gather(1, top).numpy().ravel(),
    }
    if radius:
        parts["radius"] = _radii(model, x, k, explainer=explainer, domain=domain).repeat(k)
    lists = pd.DataFrame(parts)
    lists.attrs["individuality"] = Individuality.of(top, scores.shape[1], classes=predicted).to_dict()
    return lists


def _radii(model: nn.Module, x: Tensor, k: int, *, explainer: Explainer, domain: Domain) -> NDArray[np.float64]:
    """Certified radii (N,) of encoded rows; NaN where no certificate applies."""
    if why_uncertified(explainer, x) is not None:
        return np.full(len(x), np.nan)
    radii: NDArray[np.float64] = certify(model, x, k, explainer=explainer, domain=domain).radius.numpy()
    return radii


def own_values(frame: pd.DataFrame, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> list[str]:
    """The values of a frame at places (M,), as text: whole numbers without a fraction, or "missing".

    >>> frame = pd.DataFrame({"age": [30.0, None], "job": ["cook", "nurse"]})
    >>> own_values(frame, np.array([0, 1, 1]), np.array([0, 1, 0]))
    ['30', 'nurse', 'missing']
    """
    values = [frame.iloc[:, i].to_numpy(dtype=object) for i in range(frame.shape[1])]
    return [as_text(values[column][row]) for row, column in zip(rows, columns, strict=True)]
