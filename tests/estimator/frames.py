"""A small table with every kind of column, and quick settings."""

from typing import Any

import numpy as np
import pandas as pd

QUICK: dict[str, Any] = {"k": 3, "settings": {}, "epochs": 3, "hidden": (8,), "random_state": 0}


def mixed(rows: int = 90, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Two numbers, text, a pandas category, a boolean, a column of 0 and 1; labels are text."""
    drawn = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(20, 70, rows),
            "job": drawn.choice(["cook", "nurse", "pilot"], rows),
            "smokes": drawn.random(rows) < 0.4,
            "grade": pd.Categorical(drawn.choice(["b", "a"], rows), categories=["b", "a", "never seen"]),
            "owns": drawn.integers(0, 2, rows),
            "pay": drawn.lognormal(3.0, 1.0, rows),
        },
        index=[f"person {i}" for i in range(rows)],
    )
    value = (frame["age"] - 45) / 10 + 2.0 * frame["smokes"] + (frame["job"] == "pilot") + drawn.normal(size=rows)
    return frame, pd.Series(np.where(value > 1, "refuse", "accept"), index=frame.index)


def numeric(rows: int = 80, columns: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers, and classes that a plane separates up to noise."""
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(rows, columns)) * [1, 10, 0.1, 3, 1][:columns] + 5
    z = (x - 5) / [1, 10, 0.1, 3, 1][:columns]
    return x, (z[:, 0] - z[:, 1] + 0.3 * drawn.normal(size=rows) > 0).astype(int)
