"""A table as people have it: holes, dates, rare values, codes that look like numbers."""

import numpy as np
import pandas as pd

TOWNS = ["Aachen", "Bonn", "Celle"]
VILLAGES = [f"village {i}" for i in range(9)]


def dirty(rows: int = 300, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers and dates with holes, a category with rare values, booleans with holes, two-valued texts, codes."""
    drawn = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": drawn.lognormal(7.5, 0.5, rows).round(2),
            "age": drawn.integers(18, 80, rows),
            "joined": pd.Timestamp("2015-01-01") + pd.to_timedelta(drawn.integers(0, 3000, rows), unit="D"),
            "town": np.where(drawn.random(rows) < 0.08, drawn.choice(VILLAGES, rows), drawn.choice(TOWNS, rows)),
            "member": drawn.random(rows) < 0.4,
            "records": drawn.choice(["no", "yes"], rows),
            "code": drawn.choice(["01069", "02110", "10115"], rows),
        }
    )
    score = np.log(frame["income"]) - 7.5 + 0.02 * (frame["age"] - 48) + (frame["code"] == "01069")
    score -= 1.0 * (frame["records"] == "yes") + (frame["joined"] > "2020-01-01") - (frame["town"] == "Bonn")
    for place, (name, share) in enumerate((("income", 0.2), ("joined", 0.1), ("town", 0.05), ("member", 0.1))):
        # each has one, whatever is drawn
        holes = (drawn.random(rows) < share) | (np.arange(rows) == place)
        score[holes] -= 0.7
        frame[name] = frame[name].astype(object if name == "member" else frame[name].dtype).mask(holes)
    return frame, np.where(score + drawn.logistic(size=rows) / 2 > 0, "good", "bad")


def own_text(value: object) -> str:
    """What a list should say, written anew."""
    if value is None or value is pd.NaT or value != value:
        return "missing"
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%d")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
