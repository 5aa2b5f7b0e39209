"""`StableClassifier`: scikit-learn in, predictions whose explanations stay put out."""

# ruff: noqa: N803 - scikit-learn calls a table X

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d
from torch import Tensor

from r2et.checkpoints.estimators import ESTIMATORS
from r2et.errors import CheckpointError
from r2et.estimator.inputs import check_classes
from r2et.estimator.networks import NetworkName
from r2et.estimator.sides import Sides
from r2et.estimator.stable import StableEstimator, Target
from r2et.files.reading import typed
from r2et.numerics.once import looking_once
from r2et.numerics.values import quoted
from r2et.recipes.methods import OwnObjective
from r2et.tables.labels import class_numbers


class _Classes(TypedDict):
    dtype: str
    values: list[str | bool | int | float]


@ESTIMATORS.register("StableClassifier")
class StableClassifier(ClassifierMixin, StableEstimator):  # type: ignore[misc]  # sklearn has no types
    """A small network for tables whose explanations stay put, as a scikit-learn classifier.

    Columns are encoded inside: numbers, and dates as days, are standardised; text, objects and pandas categories
    become one feature of 0 and 1 for each category, two categories one feature, rare categories one together;
    booleans and columns of 0 and 1 stay so. Values may be missing: of a number the median stands for them beside a
    feature that says so, of anything else "missing" is a category. An explanation ranks columns
    (`r2et.explainers.ColumnEffects`): a number by the slope of the predicted class's log-odds per standard
    deviation, a category, a flag or a missing number by how far these are from their mean over its other values.

    `fit` holds out rows for validation, trains with scale-free R2ET and picks its weights: the most stable lists
    of columns among the models whose AUC is within 0.01 of a vanilla network's, as WorstCase (budget "fast") finds
    them when numbers move inside their range and categories and flags stay. What is trained for is the gradient
    of the network without its gauge (`r2et.domain.without_gauge`), at a fraction of the cost of column effects.

    Args:
        k: how many columns an explanation names.
        method: how to train, a key of `r2et.recipes.METHODS`: "r2et-sf", "vanilla", "linear" and so on; or an
            objective by its name in the registry, on a plain network. "auto" = "r2et-sf", and "vanilla" for an
            additive network.
        network: "mlp", layers of neurons, or "additive", a function of its own for each column
            (`r2et.models.Additive`): nothing happens between columns, and what it says about a person can be
            proven to hold exactly.
        objective: what training minimises in place of the method's own, on the method's network: an objective by
            name or `package.module:Class`, which is imported, its class, or an object, which is used as it is.
        settings: hyper-parameters of the method, such as {"gap": 0.1, "curvature": 0.1}: they skip the search.
            What is left out has the method's default.
        grid: values of each hyper-parameter to choose from; None = a small grid.
        hidden: width of each hidden layer of an "mlp".
        epochs: at most this many passes over the rows; "auto" = 100, of an additive network 40.
        lr: learning rate; "auto" = 0.01, of an additive network 0.03 that falls to zero over the epochs.
        batch_size: rows per step; "auto" = a fifth of the training rows, between 32 and 256 (additive: 512).
        patience: stop after this many epochs without a lower validation loss; None = never.
        validation_fraction: share of the rows that is held out, of each class.
        categorical_features: columns that are categorical though they hold numbers: names, numbers, or a mask.
        rare_share, rare_rows: categories with less than this share of the rows, or with fewer rows (where these
            are no more than 2 % of the table), are pooled: see `r2et.tables.Pooling`. 0 and 0 = none are.
        class_weight: "balanced", or a dict from class to weight; multiplied with `sample_weight`.
        radius: of the attack that candidates are judged by, in encoded units.
        random_state: of everything that is drawn.

    Attributes:
        classes_: the labels, sorted.
        k_: k, or one less than the columns if those are too few.
        n_features_in_, feature_names_in_: columns, and their names if all are text.
        encoding_: how columns become features; `encoding_.names` are the n encoded features, and
            `encoding_.as_columns` says which column each belongs to.
        domain_: what an attack may change: numbers inside the range seen in fit where they are not missing, no
            categories, no flags.
        model_: the network, (N, n) to logits (N, classes), in float64.
        background_: rows that reasons are measured against (`r2et.explainers.Background`), made of the training
            rows: each stands for several people and is nobody.
        contributions_: what `reasons` ranks columns by (`r2et.explainers.Contributions`).
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
        method: str = "auto",
        network: NetworkName = "mlp",
        objective: OwnObjective | None = None,
        settings: Mapping[str, float] | None = None,
        grid: Mapping[str, Sequence[float]] | None = None,
        hidden: Sequence[int] = (32,),
        epochs: int | Literal["auto"] = "auto",
        lr: float | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        patience: int | None = 10,
        validation_fraction: float = 0.2,
        categorical_features: Any = None,
        rare_share: float = 0.005,
        rare_rows: int = 20,
        class_weight: Mapping[Any, float] | str | None = None,
        radius: float = 1.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            k,
            method=method,
            network=network,
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
            rare_share=rare_share,
            rare_rows=rare_rows,
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

    # --- explaining -----------------------------------------------------------------------------------------

    @looking_once()
    def reasons(
        self,
        X: Any,
        n: int = 4,
        *,
        toward: Any = None,
        exclude: Sequence[str] | None = None,
        phrases: Mapping[str, str] | None = None,
        proven: bool = True,
        plausible: str | None = None,
    ) -> pd.DataFrame:
        """The columns that speak most for a class, row by row, each with the row's own value: for a letter.

        A column speaks for a class if its contribution (`contributions_`) to the class's log-odds is positive.
        Only such columns are named: a list may be shorter than n, or empty. That a column speaks for a class says
        how this model scores; it does not say what would happen to a person whose value was another one.

        Args:
            X: N rows.
            n: most reasons of a row.
            toward: the class that reasons are for, such as the one that is bad news; None = the predicted one.
            exclude: columns that must not be named. The model still uses them.
            phrases: by column, a sentence of your own, in which `{value}`, `{column}`, `{toward}` and
                `{direction}` stand for what they say.
            proven: prove how far the lists hold, which takes longer.
            plausible: tell it in multiples of plausible change too: "age=1,income=2%" (a percentage is of the
                column's median magnitude; other numbers as the data propose), or "auto".

        Returns:
            One row per reason: `row` (the row's label in the frame), `rank` from 1, `column`, `value` (the row's
            own, as text), `contribution` (to the log-odds of the class), `direction` ("speaks for ..."),
            `holds_within` (while all numbers together move by less than this, in standard deviations, the same
            columns are named; NaN where nothing is proven), `holds_within_units` (the same for this column alone,
            in its own units), `holds_within_plausible` if that was asked for, and `text`. `attrs` say the rest:
            "rows_without_reasons" and "rows_not_explained" (a value that was not there in fit), by their labels;
            "excluded": columns, and in how many lists each would have been named; "background": its SHA-256;
            "proof": the method, and where nothing is proven, why; "plausible": one plausible change of each
            number, as an amount.

        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> y = y.map({0: "malignant", 1: "benign"})
        >>> model = StableClassifier(k=3, network="additive", epochs=5, random_state=0).fit(X, y)
        >>> reasons = model.reasons(X.head(2), n=2, toward="malignant", proven=False)
        >>> reasons["direction"].unique().tolist()
        ['speaks for malignant']
        """
        options = {"exclude": exclude, "phrases": phrases, "proven": proven, "plausible": plausible}
        return self._reasons(X, n, toward, **options)

    def _sides(self) -> Sides:
        directions = tuple(f"speaks for {label}" for label in self.classes_.tolist())
        return Sides(self.model_, self.classes_.tolist(), directions, "classes")
