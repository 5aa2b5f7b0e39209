"""`StableClassifier`, the scikit-learn estimator."""

from r2et.estimator.classifier import StableClassifier
from r2et.estimator.columns import Encoding
from r2et.estimator.search import Sanity

__all__ = ["Encoding", "Sanity", "StableClassifier"]
