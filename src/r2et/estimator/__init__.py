"""`StableClassifier` and `StableRegressor`, the scikit-learn estimators."""

from r2et.estimator.choosing import Sanity
from r2et.estimator.classifier import StableClassifier
from r2et.estimator.regressor import StableRegressor

__all__ = ["Sanity", "StableClassifier", "StableRegressor"]
