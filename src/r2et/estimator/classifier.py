"""`StableClassifier`: scikit-learn in, predictions whose explanations stay put out."""

# ruff: noqa: N803 - scikit-learn calls a table X

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
from torch import Tensor, nn

from r2et import models
from r2et.attacks import WorstCase
from r2et.auditing import Audit, audit
from r2et.certificates import Certificate, certify
from r2et.checkpoints import load_model
from r2et.checkpoints.estimators import ESTIMATORS, SavedEstimator
from r2et.columns import Columns
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.estimator.choosing import Sanity, compare_with_linear, train_and_choose
from r2et.estimator.inputs import (
    check_classes,
    check_parameters,
    lowered_k,
    row_weights,
    whole,
)
from r2et.estimator.lists import listed
from r2et.estimator.networks import NetworkName, method_of, outline_of, schedule_of
from r2et.estimator.reasons import Wanted, reasons_of
from r2et.estimator.saving import NAME, restore, save
from r2et.explainers import Background, Contributions, Explainer, table_explainer
from r2et.numerics.once import looking_once
from r2et.numerics.values import check_flag, check_k
from r2et.recipes import PRESETS, Preset
from r2et.recipes.methods import OwnObjective
from r2et.registry import Trust
from r2et.tables.columns import as_frame, as_input_errors, column_names, which_columns
from r2et.tables.encoding import Encoding
from r2et.tables.kinds import Pooling
from r2et.tables.labels import class_numbers
from r2et.tables.rows import Rows, row_names, series_name
from r2et.tables.splits import hold_out
from r2et.tables.units import Units
from r2et.training import WeightedRows


@ESTIMATORS.register(NAME)
class StableClassifier(ClassifierMixin, BaseEstimator, SavedEstimator):  # type: ignore[misc]  # sklearn has no types
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
        self.k = k
        self.method = method
        self.network = network
        self.objective = objective
        self.settings = settings
        self.grid = grid
        self.hidden = hidden
        self.epochs = epochs
        self.lr = lr
        self.batch_size = batch_size
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.rare_share = rare_share
        self.rare_rows = rare_rows
        self.class_weight = class_weight
        self.radius = radius
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # a missing value is something that a row says
        tags.input_tags.allow_nan = True
        return tags

    # --- fitting --------------------------------------------------------------------------------------------

    @looking_once()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "StableClassifier":
        """Train on a table.

        Args:
            X: a frame, or an array (N, columns).
            y: labels (N,), numbers or text, of at least two classes.
            sample_weight: of the rows (N,) in the classification loss. A row of weight 0 is left out. The
                regularisers and the validation AUC count every other row once.
        """
        check_parameters(self.get_params(deep=False))
        frame = as_frame(X)
        # of another object, because a fit that fails must leave this one as it was
        seen = type(self)()
        with as_input_errors():
            validate_data(seen, X, y, skip_check_array=True)
            labels = column_or_1d(y, warn=True)
            check_array(labels, ensure_2d=False, dtype=None, input_name="y")
            check_classification_targets(labels)
        if len(labels) != len(frame):
            raise InputError(f"{len(labels)} labels for {len(frame)} rows of X")
        weights = row_weights(sample_weight, self.class_weight, labels)
        kept = weights > 0
        frame, labels, weights = frame[kept], labels[kept], weights[kept]
        classes, numbers = np.unique(labels, return_inverse=True)
        check_classes(classes, numbers)
        with as_input_errors():
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        pool = Pooling(self.rare_share, whole(self.rare_rows))
        encoding = Encoding.learn(frame, which_columns(frame, self.categorical_features), pool)
        k = lowered_k(int(self.k), encoding.as_columns)
        explainer = table_explainer(encoding.as_columns)
        exact = torch.from_numpy(encoding.encode(frame))
        x = exact.float()
        # a class of two rows or more is in both parts, a class of one row in the training part
        parts = hold_out(numbers, self.validation_fraction, seed=seed, least=1, keep=1)
        train, validation = (_rows(x[rows], numbers[rows], weights[rows]) for rows in parts)
        background = Background.from_rows(exact[parts[0]], encoding.as_columns, seed=seed)
        chosen = train_and_choose(
            method_of(self.method, self.network),
            train,
            validation,
            preset=self._preset(k, len(train.x), encoding.as_columns),
            settings=self.settings,
            grid=self.grid,
            attack=WorstCase(k=k, radius=self.radius, explainer=explainer, budget="fast"),
            domain=encoding.domain,
            seed=seed,
            objective=self.objective,
        )
        sanity = compare_with_linear(train, validation, chosen.fit.auc)
        self._take_columns(seen)
        self.classes_, self.encoding_, self.k_ = classes, encoding, k
        self.background_: Background = background
        self.domain_: Domain = encoding.domain
        self.model_ = _in_float64(chosen.fit.model)
        self.settings_ = chosen.settings
        self.candidates_ = pd.DataFrame(chosen.candidates)
        self.history_ = chosen.fit.history
        self.sanity_: Sanity = sanity
        return self

    def _take_columns(self, seen: "StableClassifier") -> None:
        """Number and names of the columns that scikit-learn has seen in another object."""
        self.n_features_in_: int = seen.n_features_in_
        if hasattr(seen, "feature_names_in_"):
            self.feature_names_in_: NDArray[Any] = seen.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _preset(self, k: int, rows: int, columns: Columns) -> Preset:
        """How to train on this many rows.

        For the gradient without its gauge, not for the effects of columns: these compare every row with one row
        per value of every column, in every step.
        """
        parameters = {name: whole(value) for name, value in self.get_params(deep=False).items()}
        architecture = outline_of(self.network, [whole(width) for width in self.hidden], columns)
        schedule = schedule_of(parameters, rows)
        return replace(PRESETS["tabular"]["cpu"], k=k, architecture=architecture, training=schedule)

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

    def _logits(self, X: Any) -> NDArray[np.float64]:
        x, _ = self._encoded(X)
        with torch.no_grad():
            logits: NDArray[np.float64] = self.model_(x).numpy()
        return logits

    def _encoded(self, X: Any) -> tuple[Tensor, pd.DataFrame]:
        """What the network sees, float64 (N, n), and the rows as a frame."""
        check_is_fitted(self, "model_")
        frame = as_frame(X)
        try:
            with as_input_errors():
                validate_data(self, X, reset=False, skip_check_array=True)
        except InputError as error:
            # scikit-learn names five columns at most
            if isinstance(X, pd.DataFrame) and (gaps := self.encoding_.gaps(column_names(frame))):
                raise InputError(f"{error}{gaps}") from error
            raise
        if isinstance(X, pd.DataFrame):
            # scikit-learn compares names only if all are text
            self.encoding_.check_columns(frame)
        return torch.from_numpy(self.encoding_.encode(frame)), frame

    # --- explaining -----------------------------------------------------------------------------------------

    @property
    def explainer_(self) -> Explainer:
        """What explains: ColumnEffects, or the gradient, which is the same, where every column is a number."""
        check_is_fitted(self, "model_")
        return table_explainer(self.encoding_.as_columns)

    def encode(self, X: Any) -> Tensor:
        """What the network `model_` sees, float64 (N, n); use it with the rest of r2et."""
        return self._encoded(X)[0]

    @property
    def contributions_(self) -> Contributions:
        """What columns add to the log-odds of a class, beside `background_`: an explainer like any other."""
        check_is_fitted(self, "model_")
        return Contributions(columns=self.encoding_.as_columns, background=self.background_)

    @looking_once()
    def explain(self, X: Any, k: int | None = None, *, radius: bool = True) -> pd.DataFrame:
        """The k columns that matter most for the prediction of each row.

        Args:
            X: N rows. A value that was not there in fit has no effect to be told: it is an InputError.
            k: how many columns; None = `k_`.
            radius: certify them too, which takes longer.

        Returns:
            N k rows: `row` (the row's label in the frame, or its number), `rank` from 1, `column`, `value` (the
            row's own, as text), `score` (the magnitude of the column's effect on the log-odds, per standard
            deviation for a number), and `radius`: no change of the numbers of norm below it, in encoded units,
            changes which k columns these are; NaN where no certificate applies. `attrs["individuality"]` says
            how alike the lists of these rows are: see `r2et.individuality.Individuality.to_dict`.
        """
        check_flag("radius", radius)
        x, frame = self._encoded(X)
        k = self._checked_k(k)
        return listed(
            self.model_,
            x,
            k,
            frame=frame,
            names=self.encoding_.column_names,
            explainer=self.explainer_,
            domain=self.domain_,
            radius=radius,
        )

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
            phrases: by column, a sentence of your own with `{value}`, `{column}` and `{toward}` in it.
            proven: prove how far the lists hold, which takes longer.

        Returns:
            One row per reason: `row` (the row's label in the frame), `rank` from 1, `column`, `value` (the row's
            own, as text), `contribution` (to the log-odds of the class), `direction` ("speaks for ..."),
            `holds_within` (while all numbers together move by less than this, in standard deviations, the same
            columns are named; NaN where nothing is proven), `holds_within_units` (the same for this column alone,
            in its own units) and `text`. `attrs` say the rest: "rows_without_reasons" and "rows_not_explained" (a
            value that was not there in fit), by their labels; "excluded": columns, and in how many lists each
            would have been named; "background": its SHA-256; "proof": the method, and where nothing is proven,
            why.

        >>> from sklearn.datasets import load_breast_cancer
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> y = y.map({0: "malignant", 1: "benign"})
        >>> model = StableClassifier(k=3, network="additive", epochs=5, random_state=0).fit(X, y)
        >>> reasons = model.reasons(X.head(2), n=2, toward="malignant", proven=False)
        >>> reasons["direction"].unique().tolist()
        ['speaks for malignant']
        """
        check_is_fitted(self, "model_")
        wanted = Wanted.of(self, n, toward=toward, exclude=exclude, phrases=phrases, proven=proven)
        x, frame = self._encoded(X)
        return reasons_of(self, x, frame, wanted)

    def certify(self, X: Any, k: int | None = None, **options: Any) -> Certificate:
        """A certificate for the top-k columns of each row: `r2et.certify` on the encoded rows, inside `domain_`.

        Args:
            X: N rows.
            k: how many columns; None = `k_`.
            options: of `r2et.certify`, such as prediction=True.
        """
        x = self.encode(X)
        for name, own in (("explainer", self.explainer_), ("domain", self.domain_)):
            options.setdefault(name, own)
        return certify(self.model_, x, self._checked_k(k), **options)

    def audit(self, X: Any, y: Any, k: int | None = None, **options: Any) -> Audit:
        """Measure and attack the explanations: `r2et.audit` on the encoded rows, inside `domain_`.

        Args:
            X: N rows; an audit calls them as the frame does.
            y: labels (N,).
            k: how many columns; None = `k_`.
            options: of `r2et.audit`, such as radii=(0.1, 0.3).
        """
        x, frame = self._encoded(X)
        labels = class_numbers(y, self.classes_.tolist())
        options.setdefault("class_names", [str(name) for name in self.classes_])
        rows = Rows(
            x,
            labels,
            self.encoding_.names,
            row_names(frame),
            domain=options.pop("domain", self.domain_),
            columns=self.encoding_.as_columns,
            units=Units.of(self.encoding_.describe(), frame),
            target=series_name(y),
        )
        return audit(self.model_, rows, k=self._checked_k(k), **options)

    def _checked_k(self, k: int | None) -> int:
        if k is None:
            return self.k_
        check_k(whole(k), len(self.encoding_.columns))
        return int(k)

    # --- saving ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier into a folder: weights as safetensors, the rest as JSON, no pickle."""
        check_is_fitted(self, "model_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: Trust = ()) -> "StableClassifier":
        """Read what `save` wrote; a file of a newer version, or a broken one, is a CheckpointError.

        Args:
            path: the folder.
            trust: objectives of your own that the file may name; see `r2et.open_model`.
        """
        return cls.restore(*load_model(path, trust=trust), str(path), trust=trust)

    @classmethod
    def restore(
        cls, model: nn.Module, information: dict[str, Any], where: str, *, trust: Trust = ()
    ) -> "StableClassifier":
        """The classifier from its network and what was saved with it: for what has read a checkpoint already.

        Args:
            model: the network, as `r2et.checkpoints.load_model` returns it.
            information: what it returns with it.
            where: the file, for messages.
            trust: as in `load`.
        """
        return restore(cls, model, information, where, trust=trust)


def _rows(x: Tensor, numbers: NDArray[np.int64], weights: NDArray[np.float64]) -> WeightedRows:
    """Rows whose weights have mean 1; equal ones are none at all."""
    labels = torch.from_numpy(numbers.astype(np.int64))
    if np.ptp(weights) == 0:
        return WeightedRows(x, labels)
    return WeightedRows(x, labels, torch.from_numpy(weights / weights.mean()).float())


def _in_float64(model: nn.Module) -> nn.Module:
    """A fresh copy: predictions of a row must not depend on the others, and certificates are about float64."""
    with torch.device("meta"):  # no weights are drawn
        copy = models.create(**model.architecture)  # type: ignore[arg-type]  # models of r2et have one
    copy.load_state_dict(model.state_dict(), assign=True)
    return copy.double().eval().requires_grad_(requires_grad=False)
