"""`StableClassifier`: scikit-learn in, predictions whose explanations stay put out."""

# ruff: noqa: N803 - scikit-learn calls a table X

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d
from torch import Tensor

from r2et.checkpoints.estimators import ESTIMATORS
from r2et.errors import CheckpointError
from r2et.estimator.inputs import check_classes
from r2et.estimator.stable import StableEstimator, Target
from r2et.files.reading import typed
from r2et.numerics.values import quoted
from r2et.recipes.methods import OwnObjective
from r2et.tables.labels import class_numbers


class _Classes(TypedDict):
    dtype: str
    values: list[str | bool | int | float]


@ESTIMATORS.register("StableClassifier")
class StableClassifier(ClassifierMixin, StableEstimator):  # type: ignore[misc]  # sklearn has no types
    """A small network for tables whose explanations stay put, as a scikit-learn classifier.

    Columns are encoded inside: numbers are standardised; text, objects and pandas categories become one feature
    of 0 and 1 for each category, two categories one feature; booleans and columns of 0 and 1 stay so. An
    explanation ranks columns (`r2et.explainers.ColumnEffects`): a number by the slope of the predicted class's
    log-odds per standard deviation, a category or a flag by how far these are from their mean over its values.

    `fit` holds out rows for validation, trains with scale-free R2ET and picks its weights: the most stable lists
    of columns among the models whose AUC is within 0.01 of a vanilla network's, as WorstCase (budget "fast") finds
    them when numbers move inside their range and categories and flags stay. What is trained for is the gradient
    of the network without its gauge (`r2et.domain.without_gauge`), at a fraction of the cost of column effects.

    Args:
        k: how many columns an explanation names.
        method: how to train, a key of `r2et.recipes.METHODS`: "r2et-sf", "vanilla", "linear" and so on; or an
            objective by its name in the registry, on a plain network.
        objective: what training minimises in place of the method's own, on the method's network: an objective by
            name or `package.module:Class`, which is imported, its class, or an object, which is used as it is.
        settings: hyper-parameters of the method, such as {"gap": 0.1, "curvature": 0.1}: they skip the search.
            What is left out has the method's default.
        grid: values of each hyper-parameter to choose from; None = a small grid.
        hidden: width of each hidden layer.
        epochs: at most this many passes over the rows.
        lr: learning rate.
        batch_size: rows per step; "auto" = a fifth of the training rows, between 32 and 256.
        patience: stop after this many epochs without a lower validation loss; None = never.
        validation_fraction: share of the rows that is held out, of each class.
        categorical_features: columns that are categorical though they hold numbers: names, numbers, or a mask.
        class_weight: "balanced", or a dict from class to weight; multiplied with `sample_weight`.
        radius: of the attack that candidates are judged by, in encoded units.
        random_state: of everything that is drawn.

    Attributes:
        classes_: the labels, sorted.
        k_: k, or one less than the columns if those are too few.
        n_features_in_, feature_names_in_: columns, and their names if all are text.
        encoding_: how columns become features; `encoding_.names` are the n encoded features, and
            `encoding_.as_columns` says which column each belongs to.
        domain_: what an attack may change: numbers inside the range seen in fit, no categories, no flags.
        model_: the network, (N, n) to logits (N, classes), in float64.
        settings_: hyper-parameters that were used.
        candidates_: one row for each model the rule chose from; empty if there was no search. `precision` is P@k
            under WorstCase.
        history_: one row per epoch of the chosen model.
        sanity_: whether a linear model is as good; print it.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = StableClassifier(k=3, settings={"gap": 0.1}, epochs=5, random_state=0).fit(X, y)
    >>> model.explain(X.head(2)).columns.tolist()
    ['row', 'rank', 'column', 'value', 'score', 'radius']
    """

    def __init__(
        self,
        k: int = 8,
        *,
        method: str = "r2et-sf",
        objective: OwnObjective | None = None,
        settings: Mapping[str, float] | None = None,
        grid: Mapping[str, Sequence[float]] | None = None,
        hidden: Sequence[int] = (32,),
        epochs: int = 100,
        lr: float = 1e-2,
        batch_size: int | Literal["auto"] = "auto",
        patience: int | None = 10,
        validation_fraction: float = 0.2,
        categorical_features: Any = None,
        class_weight: Mapping[Any, float] | str | None = None,
        radius: float = 1.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            k,
            method=method,
            objective=objective,
            settings=settings,
            grid=grid,
            hidden=hidden,
            epochs=epochs,
            lr=lr,
            batch_size=batch_size,
            patience=patience,
            validation_fraction=validation_fraction,
            categorical_features=categorical_features,
            radius=radius,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _read_target(self, y: Any) -> NDArray[Any]:
        labels: NDArray[Any] = column_or_1d(y, warn=True)
        check_array(labels, ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(labels)
        return labels

    def _learn_target(self, told: NDArray[Any], name: str) -> Target:
        classes, numbers = np.unique(told, return_inverse=True)
        check_classes(classes, numbers)
        numbers = numbers.astype(np.int64)
        return Target(numbers, numbers, {"classes_": classes})

    def target_numbers(self, y: Any) -> Tensor:
        """Labels as class numbers, int64 (N,)."""
        return class_numbers(y, self.classes_.tolist())

    def target_options(self) -> dict[str, Any]:
        """The names of the classes."""
        return {"class_names": tuple(map(str, self.classes_.tolist()))}

    @property
    def outputs(self) -> int:
        """How many logits the network has: one for each class."""
        return len(self.classes_)

    def described_target(self) -> dict[str, Any]:
        """The classes as JSON."""
        return {"dtype": self.classes_.dtype.str, "values": self.classes_}

    def take_target(self, described: dict[str, Any]) -> None:
        """The classes from what `described_target` gave."""
        saved = typed(described, _Classes, "the classes")
        dtype = np.dtype(saved["dtype"])
        # a width that a file only announces must not take memory
        if dtype.kind not in "biufUO" or dtype.itemsize > 4096 or len(set(saved["values"])) < len(saved["values"]):
            raise CheckpointError(f"{quoted(saved)} does not describe classes")
        self.classes_ = np.array(saved["values"], dtype=dtype)

    # --- predicting -----------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Log-odds of the second class (N,), or with more than two classes logits (N, classes)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes in the order of `classes_`, (N, classes)."""
        probabilities: NDArray[np.float64] = torch.from_numpy(self._logits(X)).softmax(1).numpy()
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable label of each row, (N,)."""
        numbers = self._logits(X).argmax(1)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels
