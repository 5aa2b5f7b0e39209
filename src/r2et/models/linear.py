"""The model that every comparison needs: under Gradient, two linear classes are perfectly stable."""

from typing import Any

from torch import Tensor, nn

from r2et.models.architecture import MODELS, check_layers
from r2et.numerics.values import check_count


@MODELS.register("linear")
class Linear(nn.Linear):
    """Logits that are linear in the features: (N, features) -> (N, classes).

    >>> Linear(4, 2).architecture
    {'name': 'linear', 'features': 4, 'classes': 2}
    """

    def __init__(self, features: int, classes: int) -> None:
        check_count("features", features)
        check_count("classes", classes)
        check_layers("a linear model", features, classes)
        super().__init__(features, classes)

    def parts(self, x: Tensor) -> Tensor:
        """What each feature adds to each logit, (N, classes, features) of rows (N, features)."""
        return x[:, None] * self.weight

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again."""
        return {"name": "linear", "features": self.in_features, "classes": self.out_features}
