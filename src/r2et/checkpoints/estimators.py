"""Estimators of tables that are saved together with their network: which there are, and what is asked of them."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from r2et.domain import Domain
from r2et.errors import CheckpointError, InputError
from r2et.registry import Registry, Trust
from r2et.tables.encoding import Encoding

if TYPE_CHECKING:
    from typing import Self


class SavedEstimator(ABC):
    """An estimator whose columns become the inputs of a network, which is what is attacked and certified.

    Its file is a checkpoint of the network whose information says `estimator`, the name in the registry.

    Attributes:
        model_: the network, (N, n) to logits (N, C).
        k_: how many features an explanation names.
        encoding_: how columns become the n features.
        domain_: the values that the features can take.
    """

    model_: nn.Module
    k_: int
    encoding_: Encoding
    domain_: Domain

    @abstractmethod
    def encode(self, X: Any) -> Tensor:  # noqa: N803 - scikit-learn calls a table X
        """Rows of a table as inputs of the network (N, n)."""

    @abstractmethod
    def target_numbers(self, y: Any) -> Tensor:
        """What is true of N rows as the network is judged by it: class numbers, int64 (N,), or numbers (N,)."""

    @abstractmethod
    def target_options(self) -> dict[str, Any]:
        """What an audit has to know about what is predicted: options of `r2et.audit`, such as class_names."""

    @classmethod
    @abstractmethod
    def restore(cls, model: nn.Module, information: dict[str, Any], where: str, *, trust: Trust = ()) -> "Self":
        """The estimator from its network and what was saved with it; `where` is for messages."""


ESTIMATORS: Registry[type[SavedEstimator]] = Registry(
    "estimator", "r2et.estimators", package="r2et.estimator", base=SavedEstimator
)


def restore_estimator(
    model: nn.Module, information: dict[str, Any], where: str, *, trust: Trust = ()
) -> SavedEstimator:
    """The estimator that a checkpoint's information names, around the network that was read with it.

    Args:
        model: the network, as `load_model` returns it.
        information: what it returns with it.
        where: the file, for messages.
        trust: as in `r2et.open_model`.
    """
    name = information.get("estimator")
    if not isinstance(name, str):
        raise CheckpointError(f"{where!r} holds a model, but no estimator: use r2et.open_model")
    try:
        entry = ESTIMATORS.stored(name, trust)
    except CheckpointError:
        raise
    except InputError as error:
        raise CheckpointError(f"{where!r} holds an estimator that is not known here: {error}") from error
    return entry.thing.restore(model, information, where, trust=trust)
