"""The model that is studied, and what a study finds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypedDict

from torch import Tensor, nn

from r2et.data import Dataset
from r2et.domain import Domain, Threat, check_threat
from r2et.numerics.memory import at_once
from r2et.recipes import Preset
from r2et.registry import Registry
from r2et_bench.cells import Cell

#: values that attacks keep of each input value, in several graphs
_GRAPHS = 64


@dataclass(frozen=True)
class StudiedModel:
    """A trained model and everything a study needs to know about it."""

    model: nn.Module
    data: Dataset
    preset: Preset
    cell: Cell
    vanilla: nn.Module | None = None

    def inputs(self, rows: int) -> Tensor:
        """The first test inputs (at most `rows`, *features): the same for every model of a data set."""
        return self.data.test.x[:rows]

    @property
    def chunk_size(self) -> int:
        """How many inputs are attacked at once."""
        return at_once(self.data.test.x[0].numel(), copies=_GRAPHS)

    @property
    def sigma(self) -> float:
        """Of Gaussian neighbours whose typical distance is the radius of the attacks."""
        return float(f"{self.preset.radius / self.data.test.x[0].numel() ** 0.5:.4g}")

    @cached_property
    def attack(self) -> dict[str, Any]:
        """What the paper's attacks share: k, radius, steps and the explanation."""
        return {
            "k": self.data.k,
            "radius": self.preset.radius,
            "steps": self.preset.attack_steps,
            "explainer": self.preset.explainer,
        }

    def known(self, threat: Threat) -> "Known":
        """What attacks, certificates and thickness are told about the data; under the paper's threat nothing."""
        check_threat(threat)
        return {} if threat == "paper" else {"domain": self.data.domain, "threat": threat}


class Known(TypedDict, total=False):
    """The domain and the threat, as keyword arguments."""

    domain: Domain
    threat: Threat


@dataclass(frozen=True)
class Outcome:
    """What a study found: numbers for the record, and arrays (N, ...) with one entry per input."""

    values: dict[str, Any]
    arrays: dict[str, Tensor] = field(default_factory=dict)


#: functions of a StudiedModel and the settings that a plan gives them
STUDIES: Registry[Callable[..., Outcome]] = Registry(
    "study", "r2et.studies", package="r2et_bench.studies", base=Callable, instances=True
)
