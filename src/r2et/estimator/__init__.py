"""`StableClassifier`, the scikit-learn estimator."""

from r2et.estimator.choosing import Sanity
from r2et.estimator.classifier import StableClassifier

__all__ = ["Sanity", "StableClassifier"]
