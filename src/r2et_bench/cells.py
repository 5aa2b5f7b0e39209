"""What one unit of the benchmark is: a cell, named after everything its model was made with."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from r2et.files.reading import typed
from r2et.numerics.values import check_seed, check_text


@dataclass(frozen=True)
class Cell:
    """One trained model of the benchmark: data set, method, hyper-parameters and seed.

    Args:
        data: name of the data set.
        method: as `r2et.recipes.find_method` takes it.
        settings: all hyper-parameters of the method.
        seed: of initialisation and training.
        preset: name of the data's preset, "cpu" or "paper".
        schedule: options of `fit` that differ from the preset's, such as {"epochs": 40}.
        made_with: the preset in full, so that a changed preset is another cell.
        retrained: trained from the vanilla model of the same seed instead of from scratch.
        boundary_pairs: k' of R2ET-mm, where a study varies it.
        limit: of the training rows, so many are used; None = all.

    >>> cell = Cell("adult", "r2et", {"gap": 0.1}, seed=0)
    >>> cell.digest == Cell("adult", "r2et", {"gap": 0.1}, seed=0).digest
    True
    >>> cell.digest == Cell("adult", "r2et", {"gap": 0.2}, seed=0).digest
    False
    """

    data: str
    method: str
    settings: Mapping[str, float] = field(default_factory=dict)
    seed: int = 0
    preset: str = "cpu"
    schedule: Mapping[str, Any] = field(default_factory=dict)
    made_with: str = ""
    retrained: bool = False
    boundary_pairs: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("data", "method", "preset"):
            check_text(name, getattr(self, name))
        check_seed(self.seed)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> str:
        """A hash of the content: equal cells are the same work."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:12]

    @property
    def name(self) -> str:
        """How its files are called."""
        # the names of files have no colon everywhere
        method = self.method.replace(":", ".")
        kind = f"{method}-retrained" if self.retrained else method
        pairs = "" if self.boundary_pairs is None else f"-pairs{self.boundary_pairs}"
        return f"{self.data}-{kind}{pairs}-{self.seed}-{self.digest}"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def cell_from(content: Mapping[str, Any]) -> Cell:
    """The cell that `Cell.to_dict` described.

    >>> cell = Cell("adult", "r2et", {"gap": 0.1}, seed=3)
    >>> cell_from(json.loads(json.dumps(cell.to_dict()))) == cell
    True
    """
    return typed(dict(content), Cell, "it does not describe a cell")
