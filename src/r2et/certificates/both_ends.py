"""What is proven and what an attack leaves, at every radius, about one threat: two ends, never one."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from r2et.certificates.certificate import Certificate
from r2et.domain import IN_WORDS, Threat
from r2et.errors import ContradictionError, InputError
from r2et.numerics.values import check_radii, quoted

if TYPE_CHECKING:
    import pandas as pd

Prediction = Literal["kept", "free"]
#: P@k is a whole number of features over k: what is apart by less is rounding
SAME = 1e-9
#: the two of them, by name
ENDS = ("proven", "attacked")
#: who the two ends are about
ATTACKERS: dict[str, str] = {
    "kept": "prediction kept: attackers must keep the prediction; what is proven holds even for attackers "
    "who change it",
    "free": "prediction free: attackers may change the predicted class, at both ends",
}


class Ends(NamedTuple):
    """Mean P@k at one radius, over all inputs of a bracket."""

    radius: float
    proven: float
    attacked: float


@dataclass(frozen=True, eq=False)
class Bracket:
    """P@k from below and from above, for one explanation, one threat and one kind of attacker.

    Whoever stays inside a radius leaves at least `proven` of the top-k features of an input, and somebody leaves
    no more than `attacked`. Both ends are about the model in float64. A proof that an attack contradicts is wrong:
    there is no such bracket, but a ContradictionError.

    Attributes:
        radii: L2 budgets, rising, (R,).
        proven: P@k that no perturbation undercuts, float64 (N, R).
        attacked: P@k under the worst perturbation that was found, float64 (N, R); what was found at a smaller
            radius counts at every larger one.
        distance: L2 norms of these perturbations, (N, R); 0 where none displaces a feature.
        certificate: where `proven` comes from.
        attack: what looked for perturbations, by name.
        threat: what an attacker may do: "domain", "tangent" or "paper".
        prediction: "kept": attackers must keep the prediction; "free": they need not.
        points: the perturbed inputs, float64 (N, R, *features); None where they were not kept.

    >>> certificate = Certificate(torch.tensor([[0.5, 1.0]]), "deterministic", "the gradient of the log-odds")
    >>> both = Bracket(
    ...     radii=(0.3, 0.7), proven=torch.tensor([[1.0, 0.5]]), attacked=torch.tensor([[1.0, 1.0]]),
    ...     distance=torch.zeros(1, 2), certificate=certificate, attack="WorstCase-2", threat="paper",
    ...     prediction="free",
    ... )
    >>> both.width, both.mean()[1]
    (tensor([[0.0000, 0.5000]], dtype=torch.float64), Ends(radius=0.7, proven=0.5, attacked=1.0))
    """

    radii: tuple[float, ...]
    proven: Tensor = field(repr=False)
    attacked: Tensor = field(repr=False)
    distance: Tensor = field(repr=False)
    certificate: Certificate = field(repr=False)
    attack: str
    threat: Threat
    prediction: Prediction
    points: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        radii = check_radii(self.radii)
        if list(radii) != sorted(set(radii)):
            raise InputError(f"the radii of a bracket must rise, got {quoted(radii)}")
        object.__setattr__(self, "radii", tuple(map(float, radii)))
        if self.prediction not in ATTACKERS:
            raise InputError(f'prediction must be "kept" or "free", got prediction={quoted(self.prediction)}')
        shape = len(self.certificate.limits), len(radii)
        for name in (*ENDS, "distance"):
            values = getattr(self, name)
            if not isinstance(values, Tensor) or values.shape != shape:
                raise InputError(f"{name} must be a tensor of shape {shape}, got {quoted(values)}")
            object.__setattr__(self, name, values.detach().double().cpu())
        check_agreement(self.proven, self.attacked, self.radii)

    def __len__(self) -> int:
        return len(self.proven)

    @property
    def k(self) -> int:
        """Size of the salient set."""
        return self.certificate.k

    @property
    def width(self) -> Tensor:
        """What is open, attacked less proven, (N, R)."""
        return self.attacked - self.proven

    def mean(self) -> tuple[Ends, ...]:
        """Both ends at each radius, over all inputs."""
        below, above = self.proven.mean(0).tolist(), self.attacked.mean(0).tolist()
        return tuple(map(Ends, self.radii, below, above))

    def to_frame(self) -> "pd.DataFrame":
        """One row for each input and radius; `attrs` name the threat, the prediction and both methods."""
        import pandas as pd

        count = len(self.radii)
        columns = {
            "row": torch.arange(len(self)).repeat_interleave(count).numpy(),
            "radius": list(self.radii) * len(self),
            **{name: getattr(self, name).flatten().numpy() for name in (*ENDS, "width", "distance")},
        }
        frame = pd.DataFrame(columns)
        frame.attrs.update(self._settings())
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything but the points as plain JSON values."""
        return {
            **self._settings(),
            "rows": len(self),
            "mean": [ends._asdict() for ends in self.mean()],
            **{name: getattr(self, name).tolist() for name in (*ENDS, "distance")},
        }

    def _settings(self) -> dict[str, Any]:
        certificate = self.certificate
        return {
            "k": self.k,
            "radii": list(self.radii),
            "threat": self.threat,
            "prediction": self.prediction,
            "attack": self.attack,
            "method": certificate.method,
            "methods": list(certificate.methods),
            "explanation": certificate.explanation,
            "precision": "float64",
        }

    def lines(self) -> list[str]:
        """The table: one line per radius, in percent, rounded outwards."""
        heading = f"{'radius':>8} {'proven':>8} {'attacked':>9} {'width':>6}"
        return [heading, *(_line(ends) for ends in self.mean())]

    def about(self) -> list[str]:
        """Whom and what the two ends are about, as sentences without their full stop."""
        methods = ", ".join(self.certificate.methods or (self.certificate.method,))
        return [
            f"threat {self.threat}: {IN_WORDS[self.threat]}",
            ATTACKERS[self.prediction],
            f"proven ({methods}) about {self.certificate.explanation}",
            f"attacked by {self.attack}; both ends are about the model in float64",
        ]

    def __repr__(self) -> str:
        inputs = "1 input" if len(self) == 1 else f"{len(self):,} inputs"
        title = f"bracket of P@{self.k}, mean over {inputs}, in percent, rounded outwards"
        words = [textwrap.fill(line, 80, subsequent_indent="  ") for line in self.about()]
        return "\n".join([title, *self.lines(), *words])


def check_agreement(proven: Tensor, attacked: Tensor, radii: Sequence[float]) -> None:
    """Raise a ContradictionError if an attack left less than what is proven, in any cell (N, R).

    >>> check_agreement(torch.tensor([[1.0]]), torch.tensor([[0.5]]), [0.1])
    Traceback (most recent call last):
    r2et.errors.ContradictionError: it was proven that 100.0 % of the list of input 0 stay at radius 0.1, and ...
    """
    # written so that what is not a number contradicts too
    wrong = ~(proven <= attacked + SAME)
    if not wrong.any():
        return
    row, place = wrong.nonzero()[0].tolist()
    raise ContradictionError(
        f"it was proven that {100 * float(proven[row, place]):.1f} % of the list of input {row} stay at radius "
        f"{radii[place]:g}, and an attack left {100 * float(attacked[row, place]):.1f} % ({int(wrong.sum())} of "
        f"{wrong.numel()} cells contradict each other): the certificate is not sound for this model, so nothing "
        "that it says is shown. Please report the model"
    )


def outwards(ends: Ends) -> tuple[str, str]:
    """Both ends in percent with one digit: proven rounded down, attacked rounded up, and never up to "nothing".

    >>> outwards(Ends(0.1, 0.9996, 0.9981)), outwards(Ends(0.1, 0.9996, 0.9999))
    (('99.9', '99.9'), ('99.9', '<100'))
    """
    low, high = _rounded(ends)
    return f"{low:.1f}", "<100" if high == 100 and ends.attacked < 1 else f"{high:.1f}"


def _rounded(ends: Ends) -> tuple[float, float]:
    """In percent, down and up."""
    low, high = 1000 * ends.proven, 1000 * ends.attacked
    return math.floor(low + SAME) / 10, math.ceil(high - SAME) / 10


def _line(ends: Ends) -> str:
    (below, above), (low, high) = _rounded(ends), outwards(ends)
    return f"{ends.radius:>8g} {low:>8} {high:>9} {above - below:>6.1f}"


def join_brackets(parts: Sequence[Bracket], certificate: Certificate) -> Bracket:
    """One bracket of the inputs of all parts, with the certificate of all of them; points are not kept."""
    names = (*ENDS, "distance")
    joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], certificate=certificate, points=None, **joined)
