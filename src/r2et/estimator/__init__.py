"""`StableClassifier`, the scikit-learn estimator."""

from r2et.estimator.choosing import Sanity
from r2et.estimator.classifier import StableClassifier
from r2et.tables.encoding import Encoding

__all__ = ["Encoding", "Sanity", "StableClassifier"]
