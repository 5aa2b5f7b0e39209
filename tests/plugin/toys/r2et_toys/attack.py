"""An attack without gradients."""

from dataclasses import dataclass

import torch

from r2et.attacks import Attack, Search


@dataclass(frozen=True, kw_only=True)
class AxisSteps(Attack):
    """The whole budget up and then down along one feature after the other."""

    steps: int = 12

    def run(self, search: Search) -> None:
        """Two iterations for each feature, the first features first."""
        rows = search.x.flatten(start_dim=1)
        for step in range(self.steps):
            delta = torch.zeros_like(rows)
            delta[:, step // 2 % rows.shape[1]] = self.radius * (-1) ** step
            search.submit(search.evaluate(search.project(search.x + delta.reshape(search.x.shape))))
