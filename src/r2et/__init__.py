"""Explanations that stay put: measure, attack, certify and train for stable top-k salient features."""

from typing import TYPE_CHECKING, Any

from r2et import attacks, explain, objectives, ranking, scores, stability
from r2et._checks import CheckpointError, DataError, InputError, ModelError
from r2et.attacks import AttackResult, Domain
from r2et.explain import (
    Activation,
    FromCaptum,
    Gradient,
    GradientTimesInput,
    IntegratedGradients,
    SmoothGrad,
)
from r2et.ranking import precision_at_k, rank_correlation
from r2et.stability import (
    AdversarialNeighbours,
    GaussianNeighbours,
    UniformNeighbours,
    pairwise_thickness,
    thickness,
    thickness_bounds,
)

if TYPE_CHECKING:
    from r2et import (
        bench,
        certificates,
        data,
        enclosure,
        integrations,
        loading,
        metrics,
        models,
        report,
        training,
        validate,
    )
    from r2et.auditing import Audit, audit
    from r2et.certificates import Certificate, certify
    from r2et.estimator import StableClassifier
    from r2et.training import FitResult, Retraining, fit, load_model, save_model

__version__ = "0.1.0"

# What is not needed to explain, measure and attack is imported when it is first used.
_LATER = {
    "certificates": "r2et.certificates",
    "enclosure": "r2et.enclosure",
    "bench": "r2et.bench",
    "data": "r2et.data",
    "integrations": "r2et.integrations",
    "loading": "r2et.loading",
    "metrics": "r2et.metrics",
    "models": "r2et.models",
    "report": "r2et.report",
    "training": "r2et.training",
    "validate": "r2et.validate",
    "Audit": "r2et.auditing:Audit",
    "audit": "r2et.auditing:audit",
    "Certificate": "r2et.certificates:Certificate",
    "certify": "r2et.certificates:certify",
    "StableClassifier": "r2et.estimator:StableClassifier",
    "FitResult": "r2et.training:FitResult",
    "Retraining": "r2et.training:Retraining",
    "fit": "r2et.training:fit",
    "load_model": "r2et.training:load_model",
    "save_model": "r2et.training:save_model",
}

__all__ = [
    "Activation",
    "AdversarialNeighbours",
    "AttackResult",
    "Audit",
    "Certificate",
    "CheckpointError",
    "DataError",
    "Domain",
    "FitResult",
    "FromCaptum",
    "GaussianNeighbours",
    "Gradient",
    "GradientTimesInput",
    "InputError",
    "IntegratedGradients",
    "ModelError",
    "Retraining",
    "SmoothGrad",
    "StableClassifier",
    "UniformNeighbours",
    "attacks",
    "audit",
    "bench",
    "certificates",
    "certify",
    "data",
    "enclosure",
    "explain",
    "fit",
    "integrations",
    "load_model",
    "loading",
    "metrics",
    "models",
    "objectives",
    "pairwise_thickness",
    "precision_at_k",
    "rank_correlation",
    "ranking",
    "report",
    "save_model",
    "scores",
    "stability",
    "thickness",
    "thickness_bounds",
    "training",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'r2et' has no attribute {name!r}")
    import importlib

    module, _, attribute = _LATER[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
