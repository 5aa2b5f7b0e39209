"""The run of an audit: one look at the model, then each chunk of rows is attacked, measured and certified."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from r2et import metrics, validate
from r2et.attacks import Attack, AttackResult, Task
from r2et.attacks.inspected import InspectedModel
from r2et.auditing.certifying import Certifier
from r2et.auditing.inputs import Names, read_names
from r2et.auditing.own_rows import moves_of
from r2et.auditing.parts import AuditRun, Part, draw, sample_rows
from r2et.auditing.planning import Plan
from r2et.auditing.samples import Picture, Samples
from r2et.data.layouts import ImageLayout
from r2et.domain import Reach
from r2et.explainers import Activation
from r2et.numerics.attention import math_attention
from r2et.numerics.checks import check_logits
from r2et.numerics.memory import at_once
from r2et.numerics.preflight import measuring
from r2et.numerics.row_noise import row_normal
from r2et.progress import progress_bar
from r2et.stability import thickness
from r2et.stability.neighbours import Neighbours

#: values that the checks of the model keep of each input value
CHECKED = 4
#: rows whose pictures are kept
PICTURES = 24


@dataclass(frozen=True)
class RowNeighbours(Neighbours):
    """x' = x + sigma z, where z comes from the seed and the row's own values: the same for a row in any chunk.

    Args:
        sigma: standard deviation in the units of x.
        seed: of the draws.
        reach: what may change; None = everything. Neighbours are brought there.
        inputs: of the model, 1 or 2.

    >>> x = torch.randn(4, 3)
    >>> whole, alone = (RowNeighbours(0.1, 0).draw(nn.Identity(), part, 5, None) for part in (x, x[2:3]))
    >>> torch.equal(whole[:, 2:3], alone)
    True
    """

    sigma: float
    seed: int
    reach: Reach | None = None
    inputs: int = 1

    def each(
        self, model: nn.Module, x: Tensor, samples: int, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Independent draws."""
        drawn = row_normal(x, self.seed, samples=samples, drawn_as=torch.float32).unflatten(2, x.shape[1:])
        points = (torch.add(x, part, alpha=self.sigma) for part in drawn)
        if self.reach is None:
            return points
        return map(partial(self.reach.near, x=x, inputs=self.inputs), points)


def run(plan: Plan) -> AuditRun:
    """Look at the model once, then work chunk by chunk; Ctrl-C ends it after the last whole chunk."""
    # attention has a second derivative by the math kernel alone
    with math_attention(), measuring(plan.model, plan.x):
        logits = _logits(plan.model, plan.x, plan.chunk)
        plan = plan.for_outputs(logits)
        options = plan.options
        features = plan.explainer(plan.model, plan.x[:1]).shape[-1]
        plan.explainer.check_k(options.k, features)
        names = _names(plan, features, logits.shape[1])
        certifier = Certifier(
            plan.model, plan.x, options.k, plan.explainer, reach=plan.reach, wanted=options.certificate
        )
        few = at_once(plan.x[0].numel(), copies=CHECKED, least=64)
        validation = validate.check(plan.model, plan.x[:few], k=options.k, explainer=plan.explainer)
        parts, pictures = _Chunks(plan, logits, features, certifier).work()
        if certifier.withdrawn:
            parts = [part.uncertified() for part in parts]
    return AuditRun(
        plan=plan,
        logits=logits,
        features=features,
        names=names,
        validation=validation,
        parts=parts,
        pictures=pictures,
        uncertified=certifier.reason,
    )


def _logits(model: nn.Module, x: Tensor, size: int) -> Tensor:
    with torch.no_grad():
        parts = [model(part) for part in x.split(size)]
    if not isinstance(parts[0], Tensor) or parts[0].ndim != 2:
        check_logits(parts[0], len(x[:size]))
    # judged together: a single row of logits can look like probabilities by chance
    logits = torch.cat(parts)
    check_logits(logits, len(x))
    return logits


def _names(plan: Plan, features: int, classes: int) -> Names:
    options = plan.options
    return read_names(
        options.feature_names if options.feature_names is not None else plan.feature_names or None,
        options.class_names,
        layout=options.layout,
        explainer=plan.explainer,
        ranked=features,
        inputs=plan.x[0].numel() // plan.explainer.inputs,
        logits=classes,
    )


#: a picture, and how many salient features its row lost
_Ranked = tuple[float, Picture]


@dataclass(frozen=True, eq=False)
class _Chunks:
    """The rows of a plan, chunk by chunk."""

    plan: Plan
    logits: Tensor
    features: int
    certifier: Certifier

    def work(self) -> tuple[list[Part], list[Picture]]:
        """What was found in each chunk, and the pictures of the most fragile rows."""
        plan = self.plan
        parts: list[Part] = []
        ranked: list[_Ranked] = []
        total = len(plan.x) * sum(map(self._cost, plan.attacks))
        with progress_bar("audit", total, plan.options.progress and not self._alone) as advance:
            try:
                for first in range(0, len(plan.x), plan.chunk):
                    part, pictures = self._chunk(slice(first, first + plan.chunk), advance)
                    parts.append(part)
                    ranked = sorted([*ranked, *pictures], key=lambda entry: (-entry[0], entry[1].row))[:PICTURES]
            except KeyboardInterrupt:
                if not parts:
                    raise
        return parts, [picture for _, picture in ranked]

    @property
    def _alone(self) -> bool:
        """Whether there is one chunk only: then each attack shows how far it is."""
        return len(self.plan.x) <= self.plan.chunk

    @cached_property
    def _inspected(self) -> InspectedModel:
        """What attacks know about the model, found out once for all chunks."""
        return InspectedModel(self.plan.model, self.plan.x)

    def _cost(self, attack: Attack) -> int:
        return attack.iterations() * len(self.plan.radii)

    def _chunk(self, rows: slice, advance: Callable[[int], None]) -> tuple[Part, list[_Ranked]]:
        plan, options = self.plan, self.plan.options
        x = plan.x[rows]
        results = self._attacked(x, advance)
        samples = sample_rows(
            x,
            self.logits[rows],
            plan.y[rows],
            k=options.k,
            explainer=plan.explainer,
            radii=plan.radii,
            worst=results[-1],
            noise=results[0],
        )
        bracket, places = self.certifier(x, rows.start, plan.attacks[-1], results[-1], plan.radii)
        if bracket is not None:
            samples.certified[places] = bracket.certificate.radius.double().cpu()
        part = Part(
            samples=samples,
            precision=_stacked(results, lambda result: result.precision),
            displaced=_stacked(results, lambda result: metrics.displaced(result, options.k)),
            kept=_stacked(results, lambda result: result.kept),
            distance=_stacked(results, lambda result: result.distance),
            thickness=self._thickness(x),
            faithfulness=self._faithfulness(x),
            bracket=bracket,
            moves=moves_of(plan.units, plan.reach.threat, x, [result.x for result in results[-1]]),
        )
        return part, self._pictures(x, samples, results[-1][-1], rows.start)

    def _attacked(self, x: Tensor, advance: Callable[[int], None]) -> list[list[AttackResult]]:
        """What each attack found at each radius."""
        plan, options = self.plan, self.plan.options
        progress = options.progress and self._alone
        task = Task.prepare(
            plan.attacks[0],
            plan.model,
            x,
            reach=plan.reach,
            seed=options.seed,
            inspected=self._inspected,
        )
        results = []
        for attack in plan.attacks:
            results.append(attack.on([task], plan.radii, progress=progress))
            advance(self._cost(attack) * len(x))
        return results

    def _thickness(self, x: Tensor) -> Tensor:
        plan, options = self.plan, self.plan.options
        inputs = plan.explainer.inputs
        neighbours = RowNeighbours(plan.settings.thickness_sigma, options.seed, plan.reach, inputs)
        return thickness(plan.model, x, options.k, explainer=plan.explainer, neighbours=neighbours)

    def _faithfulness(self, x: Tensor) -> dict[str, float]:
        explainer = self.plan.explainer
        if isinstance(explainer, Activation):
            return {}
        fractions = (0.01, 0.05, 0.1, 0.2, 0.5) if self.features > 200 else None
        return metrics.faithfulness(
            self.plan.model, x, explainer=explainer, fractions=fractions, tolerance=self.plan.tolerance
        )

    def _pictures(self, x: Tensor, samples: Samples, worst: AttackResult, first: int) -> list[_Ranked]:
        layout, explainer = self.plan.options.layout, self.plan.explainer
        if not isinstance(layout, ImageLayout):
            return []
        lost = samples.lost()
        fragile = lost.argsort(descending=True, stable=True)[:PICTURES].tolist()
        pictures = draw(x, worst, fragile, first=first, layout=layout, members=explainer.inputs)
        return [(float(lost[picture.row - first]), picture) for picture in pictures]


def _stacked(results: Sequence[Sequence[AttackResult]], value: Callable[[AttackResult], Tensor]) -> Tensor:
    """One value per row of each attack and radius, (A, R, N)."""
    return torch.stack([torch.stack([value(result) for result in by_radius]) for by_radius in results])
