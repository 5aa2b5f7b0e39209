"""Explanations that stay put: measure, attack, certify and train for stable top-k salient features."""

from typing import TYPE_CHECKING

from r2et.lazy import lazily

if TYPE_CHECKING:
    from r2et import (
        attacks,
        data,
        errors,
        explainers,
        metrics,
        models,
        objectives,
        recipes,
        report,
        tables,
        validate,
    )
    from r2et.auditing import audit
    from r2et.certificates import Bracket, bracket, certify
    from r2et.checkpoints import save_model
    from r2et.columns import Columns
    from r2et.domain import Domain
    from r2et.estimator import StableClassifier, StableRegressor
    from r2et.predictors import open_model
    from r2et.ranking import precision_at_k
    from r2et.stability import thickness_bounds
    from r2et.stability.ranking_thickness import thickness
    from r2et.training import fit

__version__ = "0.1.0"

__all__ = [
    "Bracket",
    "Columns",
    "Domain",
    "StableClassifier",
    "StableRegressor",
    "attacks",
    "audit",
    "bracket",
    "certify",
    "data",
    "errors",
    "explainers",
    "fit",
    "metrics",
    "models",
    "objectives",
    "open_model",
    "precision_at_k",
    "recipes",
    "report",
    "save_model",
    "tables",
    "thickness",
    "thickness_bounds",
    "validate",
]

#: where each name lives; nothing is imported before it is used, so that `r2et --version` needs no torch
_HOMES = {
    "Bracket": "certificates",
    "Columns": "columns",
    "Domain": "domain",
    "StableClassifier": "estimator",
    "StableRegressor": "estimator",
    "audit": "auditing",
    "bracket": "certificates",
    "certify": "certificates",
    "fit": "training",
    "open_model": "predictors",
    "precision_at_k": "ranking",
    "save_model": "checkpoints",
    "thickness": "stability",
    "thickness_bounds": "stability",
}
#: packages that are reached through the ones above, and by those who extend r2et
_INNER = (
    "auditing",
    "certificates",
    "checkpoints",
    "cli",
    "columns",
    "domain",
    "enclosure",
    "estimator",
    "files",
    "foreign",
    "individuality",
    "integrations",
    "numerics",
    "predictors",
    "progress",
    "ranking",
    "registry",
    "scores",
    "stability",
    "training",
)

__getattr__ = lazily("r2et", dict.fromkeys((*__all__, *_INNER), "") | _HOMES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
