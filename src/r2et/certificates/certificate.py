"""What a certificate says: a radius for each input, the map it is about, and what it rests on."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from r2et.domain import IN_WORDS, Reach
from r2et.errors import InputError
from r2et.numerics.values import check_text, quoted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Certificate:
    """Radii inside which the top-k features cannot change.

    Attributes:
        limits: (N, k): every perturbation of L2 norm below limits[:, m] displaces at most m of the top-k features.
            It never decreases along a row.
        method: how it was found, e.g. "deterministic".
        methods: the bounds that took part, of which the largest radius counts, e.g. ("integral", "dual").
        radii: where limits are known at some radii alone, these: a limit is one of them (a hair larger, so that
            it holds there too) or 0. What `precision_at` says in between is what holds at the next larger one
            of them that is certified; a search finds more. None = limits were searched for.
        explanation: the map whose top-k set is certified, in words.
        sound: whether the radii are proven under the assumptions; the first-order estimate is not.
        assumptions: what the guarantee rests on.
        reasons: for every other method why it does not apply or was not chosen.
        top: the certified set, most salient first, int64 (N, k).
        details: what else a method has to tell, by name, each (N, ...).
        lengths: names on each list, int64 (N,), where lists may have fewer than k; None = all have k. `top` is -1
            beyond them, and limits count what leaves the list or comes to it, whichever is more.

    >>> certificate = Certificate(torch.tensor([[0.5, 1.0]]), "deterministic", "Gradient of the log-odds")
    >>> certificate.radius
    tensor([0.5000])
    >>> certificate.precision_at(0.7)      # at most one of the two features is displaced
    tensor([0.5000])
    """

    limits: Tensor = field(repr=False)
    method: str
    explanation: str
    sound: bool = True
    assumptions: tuple[str, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
    top: Tensor | None = field(default=None, repr=False)
    details: dict[str, Tensor] = field(default_factory=dict, repr=False)
    methods: tuple[str, ...] = ()
    radii: tuple[float, ...] | None = None
    lengths: Tensor | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Tensor) or self.limits.ndim != 2 or not self.limits.is_floating_point():
            raise InputError(f"limits must be a floating-point tensor (N, k), got {quoted(self.limits)}")
        check_text("method", self.method)

    @property
    def k(self) -> int:
        """Size of the certified set."""
        return self.limits.shape[1]

    @property
    def radius(self) -> Tensor:
        """(N,): no perturbation of L2 norm below it changes the top-k set."""
        return self.limits[:, 0]

    def precision_at(self, radius: float | Tensor) -> Tensor:
        """A lower bound of P@k under every perturbation of L2 norm at most `radius`, (N,).

        Args:
            radius: one number, or one for each input (N,).
        """
        if isinstance(radius, bool):
            raise InputError(f"radius must be a number or a tensor of numbers, got {quoted(radius)}")
        try:
            at = torch.as_tensor(radius, dtype=self.limits.dtype, device=self.limits.device)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(f"radius must be a number or a tensor of numbers, got {quoted(radius)}") from error
        if at.ndim > 1 or (at.ndim == 1 and len(at) != len(self.limits)):
            raise InputError(
                f"radius must be one number or one for each of the {len(self.limits)} inputs, "
                f"got a tensor of shape {tuple(at.shape)}"
            )
        if (at < 0).any() or at.isnan().any():
            raise InputError(f"radius must not be negative, got {radius}")
        displaced = (self.limits <= at.reshape(-1, 1)).sum(1)
        if self.lengths is None:
            return 1 - displaced.to(self.limits.dtype) / self.k
        # the longer list has at least as many names as this one, and all but the displaced are on both
        names = self.lengths.to(self.limits).clamp_min(1)
        return (1 - displaced / names).clamp_min(0)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each input: its radius, and for m = 1, ..., k - 1 the radius that displaces at most m."""
        import pandas as pd

        columns: dict[str, Any] = {"radius": self.radius.cpu().numpy()}
        for displaced in range(1, self.k):
            columns[f"displaced_at_most_{displaced}"] = self.limits[:, displaced].cpu().numpy()
        frame = pd.DataFrame(columns)
        frame.attrs.update(method=self.method, explanation=self.explanation, sound=self.sound)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values; an infinite radius is None."""
        return {
            "method": self.method,
            "methods": list(self.methods),
            "radii": None if self.radii is None else list(self.radii),
            "explanation": self.explanation,
            "sound": self.sound,
            "k": self.k,
            "radius": [_finite(value) for value in self.radius.tolist()],
            "lengths": None if self.lengths is None else self.lengths.tolist(),
            "limits": [[_finite(value) for value in row] for row in self.limits.tolist()],
            "assumptions": list(self.assumptions),
            "reasons": dict(self.reasons),
        }

    def __repr__(self) -> str:
        kind = "certified radius" if self.sound else "estimated radius (not a certificate)"
        lines = [
            f"{kind} of the top {self.k} features, method {self.method}" + _parts_in_words(self),
            f"explanation: {self.explanation}",
            f"{len(self.limits)} inputs: " + _spread(self.radius),
        ]
        if self.radii is not None:
            at = ", ".join(f"{radius:g}" for radius in self.radii)
            lines.append(f"known at {at} alone: between two of them what holds at the larger one")
        lines += [f"assumes: {entry}" for entry in self.assumptions]
        lines += [f"not {name}: {why}" for name, why in self.reasons.items()]
        return "\n".join(textwrap.fill(line, 80, subsequent_indent="  ") for line in lines)


def joined(parts: "Sequence[tuple[Certificate, Tensor]]") -> Certificate:
    """Certificates of some rows each, by their places (M,), as one of all rows.

    >>> one, two = (Certificate(torch.tensor([[radius]]), "dual", "Gradient") for radius in (0.5, 0.7))
    >>> joined([(one, torch.tensor([1])), (two, torch.tensor([0]))]).radius
    tensor([0.7000, 0.5000])
    """
    first = parts[0][0]
    if len(parts) == 1:
        return first
    order = torch.cat([rows for _, rows in parts]).argsort()

    def together(tensors: list[Tensor]) -> Tensor:
        return torch.cat(tensors)[order.to(tensors[0].device)]

    tops = [part.top for part, _ in parts if part.top is not None]
    return replace(
        first,
        limits=together([part.limits for part, _ in parts]),
        top=together(tops) if len(tops) == len(parts) else None,
        details={name: together([part.details[name] for part, _ in parts]) for name in first.details},
    )


def in_words(reach: Reach) -> str:
    """What a certificate assumes an attacker to do.

    >>> from r2et.domain import Domain
    >>> in_words(Domain().reach("paper", 3))
    'threat paper: every number that the model sees moves, whether such a row exists or not'
    """
    beyond = "; it holds outside of the range and between whole steps as well"
    return f"threat {reach.threat}: {IN_WORDS[reach.threat]}{beyond if reach.threat == 'domain' else ''}"


def _parts_in_words(certificate: Certificate) -> str:
    """Which bounds took part, where there is more than one."""
    if len(certificate.methods) < 2 and certificate.methods in ((), (certificate.method,)):
        return ""
    return f" ({', '.join(certificate.methods)})"


def _finite(value: float) -> float | None:
    return value if value < float("inf") else None


def _spread(radius: Tensor) -> str:
    values = radius.double().cpu().sort().values
    if len(values) == 1:
        return f"radius {float(values[0]):.4g}"
    median = values[(len(values) - 1) // 2]
    return f"radius median {float(median):.4g}, smallest {float(values[0]):.4g}, largest {float(values[-1]):.4g}"
