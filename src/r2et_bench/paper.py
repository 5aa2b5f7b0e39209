"""The values of the paper's tables, to stand beside ours: facts, in the units the paper prints them in."""

import json
from functools import lru_cache
from importlib import resources

#: of one cell of a table, in the order of its caption; Table 6 has ERAttack, then MSE
Values = tuple[float | None, ...]

#: what stands in for data that is not public
STAND_INS = {"abide": "the paper's ADHD is not public", "oct": "the paper's ROCT has other scans and 512 neurons"}


@lru_cache(maxsize=1)
def paper_values() -> dict[str, dict[str, dict[str, Values]]]:
    """By table, data set and method (Tables 1, 2, 5 to 9; 3 is a part of 5).

    >>> paper_values()["1"]["adult"]["r2et"]
    (92.1, 92.7)
    """
    content = json.loads(resources.files("r2et_bench").joinpath("paper.json").read_text())
    return {
        table: {data: {method: tuple(cell) for method, cell in rows.items()} for data, rows in columns.items()}
        for table, columns in content.items()
    }
