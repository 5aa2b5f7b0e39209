"""An objective: explanations of small size."""

from dataclasses import dataclass

from r2et.objectives import OBJECTIVES, ExplainedBatch, Regularised, Term


@OBJECTIVES.register("calm", title="Calm", defaults={"weight": 0.5}, grid={"weight": (0.1, 1.0)})
@dataclass(frozen=True, kw_only=True)
class Calm(Regularised):
    """Cross-entropy + weight * mean squared norm of the attributions.

    Args:
        weight: of the norm.
    """

    weight: float = 0.5

    def terms(self, batch: ExplainedBatch) -> dict[str, Term]:
        """One regulariser."""
        return {"size": Term(batch.attributions.flatten(1).square().sum(1).mean(), self.weight)}
