"""What the estimators for tables share: from columns to a network whose explanations stay put, and back."""

# ruff: noqa: N803 - scikit-learn calls a table X

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from r2et import models
from r2et.attacks import WorstCase
from r2et.auditing import Audit, audit
from r2et.certificates import Certificate, certify
from r2et.checkpoints import load_model
from r2et.checkpoints.estimators import SavedEstimator
from r2et.columns import Columns
from r2et.domain import Domain
from r2et.errors import InputError
from r2et.estimator.choosing import Sanity, compare_with_linear, train_and_choose
from r2et.estimator.inputs import check_parameters, lowered_k, row_weights, whole
from r2et.estimator.lists import listed
from r2et.estimator.networks import NetworkName, method_of, outline_of, schedule_of
from r2et.estimator.reasons import Wanted, reasons_of
from r2et.estimator.saving import restore, save
from r2et.estimator.sides import Sides
from r2et.explainers import Background, Contributions, Explainer, table_explainer
from r2et.numerics.once import looking_once
from r2et.numerics.values import check_flag, check_k
from r2et.recipes import PRESETS, Preset
from r2et.recipes.methods import OwnObjective
from r2et.registry import Trust
from r2et.tables.columns import as_frame, as_input_errors, column_names, which_columns
from r2et.tables.encoding import Encoding
from r2et.tables.kinds import Pooling
from r2et.tables.rows import Rows, row_names, series_name
from r2et.tables.splits import hold_out
from r2et.tables.units import Units
from r2et.training import WeightedRows

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Target:
    """What is to be predicted, as a network is trained on it.

    Attributes:
        values: class numbers, int64 (N,), or standardised numbers, float64 (N,).
        groups: the rows are held out in the same proportion of each, int64 (N,).
        learned: what the fitted estimator knows about it: attributes by name.
    """

    values: NDArray[Any] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)
    learned: Mapping[str, Any]


class StableEstimator(BaseEstimator, SavedEstimator):  # type: ignore[misc]  # sklearn has no types
    """What `StableClassifier` and `StableRegressor` share; their docstrings say what the parameters are."""

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
        self.radius = radius
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # a missing value is something that a row says
        tags.input_tags.allow_nan = True
        return tags

    # --- fitting --------------------------------------------------------------------------------------------

    @looking_once()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Self":
        """Train on a table.

        Args:
            X: a frame, or an array (N, columns).
            y: what is to be predicted, (N,): labels of at least two classes, or numbers.
            sample_weight: of the rows (N,) in the loss. A row of weight 0 is left out. The regularisers and the
                figures on validation rows count every other row once.
        """
        check_parameters(self.get_params(deep=False))
        frame = as_frame(X)
        # of another object, because a fit that fails must leave this one as it was
        seen = type(self)()
        with as_input_errors():
            validate_data(seen, X, y, skip_check_array=True)
            told = self._read_target(y)
        if len(told) != len(frame):
            raise InputError(f"{len(told)} labels for {len(frame)} rows of X")
        weights = row_weights(sample_weight, getattr(self, "class_weight", None), told)
        kept = weights > 0
        frame, told, weights = frame[kept], told[kept], weights[kept]
        target = self._learn_target(told, str(y.name) if isinstance(y, pd.Series) and y.name is not None else "")
        with as_input_errors():
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        pool = Pooling(self.rare_share, whole(self.rare_rows))
        encoding = Encoding.learn(frame, which_columns(frame, self.categorical_features), pool)
        k = lowered_k(int(self.k), encoding.as_columns)
        explainer = table_explainer(encoding.as_columns)
        exact = torch.from_numpy(encoding.encode(frame))
        x = exact.float()
        # a group of two rows or more is in both parts, one of a single row in the training part
        parts = hold_out(target.groups, self.validation_fraction, seed=seed, least=1, keep=1)
        train, validation = (_rows(x[rows], target.values[rows], weights[rows]) for rows in parts)
        background = Background.from_rows(exact[parts[0]], encoding.as_columns, seed=seed)
        chosen = train_and_choose(
            method_of(self.method, self.network),
            train,
            validation,
            preset=self._preset(k, len(train.x), encoding.as_columns),
            settings=self.settings,
            grid=self.grid,
            attack=WorstCase(
                k=k, radius=self.radius, explainer=explainer, budget="fast", **self._attack_options(target)
            ),
            domain=encoding.domain,
            seed=seed,
            objective=self.objective,
        )
        sanity = compare_with_linear(train, validation, chosen.fit.auc)
        self._take_columns(seen)
        for name, value in target.learned.items():
            setattr(self, name, value)
        self.encoding_, self.k_ = encoding, k
        self.background_: Background = background
        self.domain_: Domain = encoding.domain
        self.model_ = _in_float64(chosen.fit.model)
        self.settings_ = chosen.settings
        self.candidates_ = pd.DataFrame(chosen.candidates)
        self.history_ = chosen.fit.history
        self.sanity_: Sanity = sanity
        return self

    @abstractmethod
    def _read_target(self, y: Any) -> NDArray[Any]:
        """What is to be predicted (N,), checked as scikit-learn asks for; its errors are turned into ours."""

    @abstractmethod
    def _learn_target(self, told: NDArray[Any], name: str) -> Target:
        """The same (N,) as numbers, of the rows of positive weight; and what the column is called, or ""."""

    def _attack_options(self, target: Target) -> dict[str, Any]:
        """Options of the attack that judges candidates, from what was learned about the target."""
        return {}

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many outputs the network has."""

    @abstractmethod
    def described_target(self) -> dict[str, Any]:
        """What `fit` learned about what is predicted, as JSON."""

    @abstractmethod
    def take_target(self, described: dict[str, Any]) -> None:
        """Set the attributes that `described_target` described; a CheckpointError if it describes nothing."""

    def _take_columns(self, seen: "StableEstimator") -> None:
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
        """What columns add to what is predicted, beside `background_`: an explainer like any other."""
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
            y: what is true of them, (N,).
            k: how many columns; None = `k_`.
            options: of `r2et.audit`, such as radii=(0.1, 0.3).
        """
        x, frame = self._encoded(X)
        rows = Rows(
            x,
            self.target_numbers(y),
            self.encoding_.names,
            row_names(frame),
            domain=options.pop("domain", self.domain_),
            columns=self.encoding_.as_columns,
            units=Units.of(self.encoding_.describe(), frame),
            target=series_name(y),
        )
        return audit(self.model_, rows, k=self._checked_k(k), **{**self.target_options(), **options})

    def _reasons(self, X: Any, n: int, toward: Any, **options: Any) -> pd.DataFrame:
        check_is_fitted(self, "model_")
        sides = self._sides()
        wanted = Wanted.of(self, sides, n, toward, **options)
        x, frame = self._encoded(X)
        return reasons_of(self, sides, x, frame, wanted)

    @abstractmethod
    def _sides(self) -> Sides:
        """What reasons can be for."""

    def _checked_k(self, k: int | None) -> int:
        if k is None:
            return self.k_
        check_k(whole(k), len(self.encoding_.columns))
        return int(k)

    # --- saving ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator into a folder: weights as safetensors, the rest as JSON, no pickle."""
        check_is_fitted(self, "model_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trust: Trust = ()) -> "Self":
        """Read what `save` wrote; a file of a newer version, or a broken one, is a CheckpointError.

        Args:
            path: the folder.
            trust: objectives of your own that the file may name; see `r2et.open_model`.
        """
        return cls.restore(*load_model(path, trust=trust), str(path), trust=trust)

    @classmethod
    def restore(cls, model: nn.Module, information: dict[str, Any], where: str, *, trust: Trust = ()) -> "Self":
        """The estimator from its network and what was saved with it: for what has read a checkpoint already.

        Args:
            model: the network, as `r2et.checkpoints.load_model` returns it.
            information: what it returns with it.
            where: the file, for messages.
            trust: as in `load`.
        """
        return restore(cls, model, information, where, trust=trust)


def _rows(x: Tensor, numbers: NDArray[Any], weights: NDArray[np.float64]) -> WeightedRows:
    """Rows whose weights have mean 1; equal ones are none at all."""
    labels = torch.from_numpy(numbers)
    if labels.is_floating_point():
        labels = labels.float()
    if np.ptp(weights) == 0:
        return WeightedRows(x, labels)
    return WeightedRows(x, labels, torch.from_numpy(weights / weights.mean()).float())


def _in_float64(model: nn.Module) -> nn.Module:
    """A fresh copy: predictions of a row must not depend on the others, and certificates are about float64."""
    with torch.device("meta"):  # no weights are drawn
        copy = models.create(**model.architecture)  # type: ignore[arg-type]  # models of r2et have one
    copy.load_state_dict(model.state_dict(), assign=True)
    return copy.double().eval().requires_grad_(requires_grad=False)
