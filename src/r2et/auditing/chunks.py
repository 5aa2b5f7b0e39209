"""What is done with each chunk of rows: attacks, thickness, faithfulness, certificate, pictures."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from r2et import metrics
from r2et.attacks import Attack, AttackResult
from r2et.auditing.certifying import Certifier
from r2et.auditing.collecting import Part, draw, sample_rows
from r2et.data.layouts import ImageLayout
from r2et.domain import Domain
from r2et.explainers import Activation, Explainer
from r2et.progress import progress_bar
from r2et.report.content import Picture
from r2et.stability import thickness
from r2et.stability.neighbours import Neighbours

#: rows whose pictures are kept
PICTURES = 24


@dataclass(frozen=True)
class RowNeighbours(Neighbours):
    """x' = x + sigma z, where z comes from the seed and the row's own values: the same for a row in any chunk.

    Args:
        sigma: standard deviation in the units of x.
        seed: of the draws.

    >>> x = torch.randn(4, 3)
    >>> whole, alone = (RowNeighbours(0.1, 0).draw(nn.Identity(), part, 5, None) for part in (x, x[2:3]))
    >>> torch.equal(whole[:, 2:3], alone)
    True
    """

    sigma: float
    seed: int

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws."""
        noise = []
        for row in x.detach().cpu().double().flatten(start_dim=1).numpy():
            digest = hashlib.blake2b(row.tobytes(), digest_size=7, key=str(self.seed).encode()).digest()
            own = torch.Generator("cpu").manual_seed(int.from_bytes(digest, "little"))
            noise.append(torch.randn(samples, len(row), generator=own, dtype=torch.float32, device="cpu"))
        drawn = torch.stack(noise, 1).to(x).unflatten(2, x.shape[1:])
        return (torch.add(x, part, alpha=self.sigma) for part in drawn)


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done with every chunk."""

    model: nn.Module
    x: Tensor
    y: Tensor
    logits: Tensor
    k: int
    explainer: Explainer
    domain: Domain | None
    radii: list[float]
    seed: int
    attacks: list[Attack]
    certifier: Certifier
    layout: ImageLayout | None

    @property
    def sigma(self) -> float:
        """Of the neighbours of thickness: about as far away as the smallest radius."""
        return float(self.radii[0] / self.x[0].numel() ** 0.5)

    def run(self, size: int, progress: bool) -> tuple[list[Part], list[Picture]]:
        """What was found chunk by chunk, and the pictures; Ctrl-C ends it after the last whole chunk."""
        parts: list[Part] = []
        pictures: list[tuple[float, Picture]] = []
        alone = len(self.x) <= size
        total = len(self.x) * sum(map(self._cost, self.attacks))
        with progress_bar("audit", total, progress and not alone) as advance:
            try:
                for first in range(0, len(self.x), size):
                    part, drawn = self._chunk(slice(first, first + size), progress and alone, advance)
                    parts.append(part)
                    pictures = sorted([*pictures, *drawn], key=lambda found: (-found[0], found[1].row))[:PICTURES]
            except KeyboardInterrupt:
                if not parts:
                    raise
        return parts, [picture for _, picture in pictures]

    def _cost(self, attack: Attack) -> int:
        return attack.iterations() * len(self.radii)

    def _chunk(
        self, rows: slice, progress: bool, advance: Callable[[int], None]
    ) -> tuple[Part, list[tuple[float, Picture]]]:
        x = self.x[rows]
        found: list[list[AttackResult]] = []
        for attack in self.attacks:
            found.append(
                attack(self.model, x, domain=self.domain, seed=self.seed, progress=progress, radii=self.radii)
            )
            advance(self._cost(attack) * len(x))
        noise, worst = found[0], found[-1]
        samples = sample_rows(x, self.logits[rows], self.y[rows], self.k, self.explainer, worst, noise, self.radii)
        certificate, places = self.certifier(x, rows.start)
        if certificate is not None:
            samples.certified[places] = certificate.radius.double().cpu()
        drawn: list[tuple[float, Picture]] = []
        if self.layout is not None:
            lost = samples.lost()
            kept = lost.argsort(descending=True, stable=True)[:PICTURES].tolist()
            made = draw(x, worst[-1], kept, rows.start, self.layout, self.explainer)
            drawn = [(float(lost[picture.row - rows.start]), picture) for picture in made]
        part = Part(
            samples=samples,
            precision=_stacked(found, lambda result: result.precision),
            displaced=_stacked(found, lambda result: metrics.displaced(result, self.k)),
            kept=_stacked(found, lambda result: result.kept),
            distance=_stacked(found, lambda result: result.distance),
            thickness=thickness(
                self.model, x, self.k, explainer=self.explainer, neighbours=RowNeighbours(self.sigma, self.seed)
            ),
            faithfulness=_faithfulness(self.model, x, self.explainer),
            certificate=certificate,
        )
        return part, drawn


def _stacked(found: list[list[AttackResult]], value: Callable[[AttackResult], Tensor]) -> Tensor:
    """One value a row of each attack and radius, (A, R, N)."""
    return torch.stack([torch.stack([value(result) for result in results]) for results in found])


def _faithfulness(model: nn.Module, x: Tensor, explainer: Explainer) -> dict[str, float]:
    if isinstance(explainer, Activation):
        return {}
    features = explainer(model, x[:1]).shape[-1]
    fractions = (0.01, 0.05, 0.1, 0.2, 0.5) if features > 200 else None
    return metrics.faithfulness(model, x, explainer=explainer, fractions=fractions)
