"""Objectives about an explanation that may know what exists and what an attacker may do."""

from abc import abstractmethod
from dataclasses import dataclass, field

from torch import Tensor, nn

from r2et.domain import Domain, Reach, Threat, chosen_threat, under_threat
from r2et.explainers import Explainer
from r2et.numerics.values import plain_numbers
from r2et.objectives.objective import Objective


@dataclass(frozen=True, kw_only=True)
class Threatened(Objective):
    """The shared part of objectives that are about an explanation.

    Args:
        domain: the inputs that exist; None = that is unknown. Rows that are trained on must be such inputs.
        threat: what an attacker may do, as in a call of an attack; None = "domain" where a domain is known, else
            "paper". But for "paper", what is trained for is the explanation of the model without its gauge
            (`r2et.domain.without_gauge`), which no term that valid rows do not see can improve. On valid rows both
            are one model, so the classification loss is the same.
    """

    domain: Domain | None = field(default=None, repr=False)
    threat: Threat | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        plain_numbers(self)
        chosen_threat(self.threat, self.domain)

    @property
    @abstractmethod
    def explained_by(self) -> Explainer:
        """The explainer that the objective is about."""

    def measured(self, model: nn.Module, x: Tensor, *, checked: bool = True) -> tuple[nn.Module, Reach | None]:
        """The model whose explanation counts, and what may be done to rows x (N, *features): None = everything.

        Args:
            model: maps (N, *features) to logits (N, C).
            x: (N, *features).
            checked: whether the rows are known to exist.
        """
        if self.domain is None:
            return model, None
        inputs = self.explained_by.inputs
        return under_threat(model, x, self.domain, self.threat, inputs=inputs, checked=checked)

    def check_rows(self, x: Tensor) -> None:
        """Raise unless the rows x (N, *features) exist, by the domain."""
        self.measured(nn.Identity(), x, checked=False)
