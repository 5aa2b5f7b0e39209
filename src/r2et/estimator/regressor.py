"""`StableRegressor`: numbers in place of classes, and explanations that stay put."""

# ruff: noqa: N803 - scikit-learn calls a table X

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
from torch import Tensor

from r2et.auditing import Outcome
from r2et.certificates import Certificate
from r2et.checkpoints.estimators import ESTIMATORS
from r2et.errors import InputError
from r2et.estimator.networks import NetworkName
from r2et.estimator.sides import Sides, two_sided
from r2et.estimator.stable import StableEstimator, Target
from r2et.files.reading import typed
from r2et.numerics.once import looking_once
from r2et.numerics.values import check_positive, quoted
from r2et.recipes.methods import OwnObjective
from r2et.scores import TOLERANCE
from r2et.tables.labels import as_numbers

#: rows of a target that are needed: some to train on, some to validate on
LEAST_ROWS = 4
#: by size of the target, of each of which the same share is held out
GROUPS = 5


class _Numbers(TypedDict):
    name: str
    mean: float
    scale: float


@ESTIMATORS.register("StableRegressor")
class StableRegressor(RegressorMixin, StableEstimator):  # type: ignore[misc]  # sklearn has no types
    """A small network for tables that predicts a number, and whose explanations stay put.

    Columns are encoded as in `StableClassifier`. The target is standardised inside: the network has one output, in
    standard deviations from the mean, and what is explained is this output. An explanation ranks columns: a number
    by the slope of the prediction per standard deviation of the column, a category or a flag by how far it is
    from the mean over its values.

    `fit` holds out rows for validation, trains with scale-free R2ET on the squared error, and picks its weights:
    the most stable lists of columns among the models whose R2 is within 0.01 of a vanilla network's, as WorstCase
    (budget "fast") finds them while the prediction stays within the tolerance.

    Args:
        k: how many columns an explanation names.
        method: how to train, a key of `r2et.recipes.METHODS`: "r2et-sf", "vanilla", "linear" and so on; or an
            objective by its name in the registry, on a plain network. "auto" = "r2et-sf", and "vanilla" for an
            additive network.
        network: "mlp" or "additive", as in `StableClassifier`.
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
        validation_fraction: share of the rows that is held out.
        categorical_features: columns that are categorical though they hold numbers: names, numbers, or a mask.
        rare_share, rare_rows: below which categories are pooled, as in `StableClassifier`.
        radius: of the attack that candidates are judged by, in encoded units.
        tolerance: a prediction counts as kept while it moves by at most this, in the units of the target; None = a
            tenth of the target's standard deviation.
        random_state: of everything that is drawn.

    Attributes:
        target_name_: what the series of the target was called, else "output".
        mean_, scale_: mean and standard deviation of the target in fit.
        tolerance_: what was meant by `tolerance`, in the units of the target.
        k_: k, or one less than the columns if those are too few.
        n_features_in_, feature_names_in_: columns, and their names if all are text.
        encoding_: how columns become features; `encoding_.names` are the n encoded features, and
            `encoding_.as_columns` says which column each belongs to.
        domain_: what an attack may change: numbers inside the range seen in fit, no categories, no flags.
        model_: the network, (N, n) to outputs (N, 1), in float64: (prediction - mean_) / scale_.
        background_, contributions_: rows, and the explainer that measures what columns add against them.
        settings_: hyper-parameters that were used.
        candidates_: one row for each model the rule chose from; empty if there was no search. `precision` is P@k
            under WorstCase.
        history_: one row per epoch of the chosen model.
        sanity_: whether a linear model is as good; print it.

    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = StableRegressor(k=3, settings={"gap": 0.1}, epochs=5, random_state=0).fit(X, y)
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
        radius: float = 1.0,
        tolerance: float | None = None,
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
        self.tolerance = tolerance

    # --- the target -----------------------------------------------------------------------------------------

    def _read_target(self, y: Any) -> NDArray[Any]:
        told: NDArray[Any] = column_or_1d(y, warn=True)
        if told.dtype.kind not in "fiub":
            told = _numbers_of(told)
        checked: NDArray[Any] = check_array(told, ensure_2d=False, dtype=np.float64, input_name="y")
        return checked

    def _learn_target(self, told: NDArray[Any], name: str) -> Target:
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        if len(told) < LEAST_ROWS:
            raise InputError(
                f"a regressor needs at least {LEAST_ROWS} rows of positive weight, got n_samples = {len(told)}"
            )
        # in units of the largest value, whose square may be more than a number holds
        largest = float(np.abs(told).max()) or 1.0
        mean, scale = float((told / largest).mean()) * largest, float((told / largest).std()) * largest
        if not scale > 1e-12 * largest:
            raise InputError(
                f"all {len(told)} numbers to predict are {told[0]:g}: a constant leaves nothing to learn"
            )
        values = (told - mean) / scale
        learned = {
            "target_name_": name or "output",
            "mean_": mean,
            "scale_": scale,
            "tolerance_": self._meant(scale),
        }
        # some of the small and of the large numbers are held out
        groups = np.searchsorted(np.quantile(values, np.arange(1, GROUPS) / GROUPS), values)
        return Target(values, groups, learned)

    def _meant(self, scale: float) -> float:
        """The tolerance in the units of the target."""
        return TOLERANCE * scale if self.tolerance is None else float(self.tolerance)

    def _attack_options(self, target: Target) -> dict[str, Any]:
        return {"tolerance": target.learned["tolerance_"] / target.learned["scale_"]}

    @property
    def outputs(self) -> int:
        """How many outputs the network has: one."""
        return 1

    def target_numbers(self, y: Any) -> Tensor:
        """Numbers to predict as the network has them, standardised, float64 (N,)."""
        return (as_numbers(y) - self.mean_) / self.scale_

    def target_options(self) -> dict[str, Any]:
        """What was done to the target, and the tolerance."""
        return {"outcome": Outcome(self.target_name_, self.mean_, self.scale_, self.tolerance_)}

    def described_target(self) -> dict[str, Any]:
        """Name, mean and standard deviation of the target as JSON."""
        return {"name": self.target_name_, "mean": self.mean_, "scale": self.scale_}

    def take_target(self, described: dict[str, Any]) -> None:
        """Name, mean and standard deviation from what `described_target` gave."""
        saved = typed(described, _Numbers, "the target")
        self.target_name_, self.mean_, self.scale_ = saved["name"], saved["mean"], saved["scale"]
        check_positive("scale of the target", self.scale_)
        if not np.isfinite(self.mean_):
            raise InputError(f"the mean of the target must be a finite number, got {self.mean_}")
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        self.tolerance_ = self._meant(self.scale_)

    # --- predicting -----------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number that is predicted for each row, in the units of the target, (N,)."""
        predicted: NDArray[np.float64] = self._logits(X)[:, 0] * self.scale_ + self.mean_
        return predicted

    @looking_once()
    def explain(self, X: Any, k: int | None = None, *, radius: bool = True) -> pd.DataFrame:
        """The k columns that matter most for the prediction of each row.

        As `StableClassifier.explain`, but `score` is in the units of the target: how much the prediction moves per
        standard deviation of a number, or with a category or a flag in place of its others, in magnitude.

        Args:
            X: N rows. A value that was not there in fit has no effect to be told: it is an InputError.
            k: how many columns; None = `k_`.
            radius: certify them too, which takes longer.
        """
        lists = super().explain(X, k, radius=radius)
        lists["score"] *= self.scale_
        return lists

    def reasons(
        self,
        X: Any,
        n: int = 4,
        *,
        toward: Literal["higher", "lower"] = "higher",
        exclude: Sequence[str] | None = None,
        phrases: Mapping[str, str] | None = None,
        proven: bool = True,
        plausible: str | None = None,
    ) -> pd.DataFrame:
        """The columns that push the prediction up most, or down, row by row, each with the row's own value.

        As `StableClassifier.reasons`, but `contribution` is in the units of the target, above 0 in either
        direction: how much the column raises the prediction, or lowers it, beside `background_`.

        Args:
            X: N rows.
            n: most reasons of a row.
            toward: whether reasons are for a higher or for a lower prediction.
            exclude: columns that must not be named. The model still uses them.
            phrases: by column, a sentence of your own, in which `{value}`, `{column}`, `{toward}` and
                `{direction}` stand for what they say.
            proven: prove how far the lists hold, which takes longer.
            plausible: tell it in multiples of plausible change too, such as "age=1,income=2%", or "auto".

        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = StableRegressor(k=3, network="additive", epochs=5, random_state=0).fit(X, y)
        >>> model.reasons(X.head(2), n=2, proven=False)["direction"].unique().tolist()
        ['raises the predicted target']
        """
        options = {"exclude": exclude, "phrases": phrases, "proven": proven, "plausible": plausible}
        return self._reasons(X, n, "higher" if toward is None else toward, **options)

    def _sides(self) -> Sides:
        what = "prediction" if self.target_name_ == "output" else f"predicted {self.target_name_}"
        directions = (f"lowers the {what}", f"raises the {what}")
        return Sides(two_sided(self.model_), ["lower", "higher"], directions, "directions", self.scale_)

    def certify(self, X: Any, k: int | None = None, **options: Any) -> Certificate:
        """A certificate for the top-k columns of each row: `r2et.certify` on the encoded rows, inside `domain_`.

        Args:
            X: N rows.
            k: how many columns; None = `k_`.
            options: of `r2et.certify`, such as prediction=True: the prediction stays within `tolerance_`.
        """
        check_is_fitted(self, "model_")
        options.setdefault("tolerance", self.tolerance_ / self.scale_)
        return super().certify(X, k, **options)


def _numbers_of(told: NDArray[Any]) -> NDArray[Any]:
    """Objects as numbers, where they are numbers; text is refused with a sentence."""
    texts = [value for value in told.tolist() if isinstance(value, str | bytes)]
    if texts:
        raise InputError(
            f"a regressor predicts numbers, but y holds text such as {quoted(texts[0])}: make numbers of it, or "
            "use r2et.StableClassifier for classes"
        )
    return told
