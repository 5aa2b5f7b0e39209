"""Where a training run runs: one device with torch alone, several processes with Lightning Fabric."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from r2et.errors import InputError
from r2et.numerics.values import quoted

Result = TypeVar("Result")
#: where one process may run under each name of an accelerator, best first
_PLACES = {
    "auto": ("cuda:0", "mps:0", "cpu"),
    "gpu": ("cuda:0", "mps:0"),
    "cuda": ("cuda:0",),
    "mps": ("mps:0",),
    "cpu": ("cpu",),
}


class Runtime(Protocol):
    """What the training loop asks of the place it runs in; Lightning's `Fabric` answers all of it."""

    @property
    def world_size(self) -> int:
        """How many processes train together."""

    @property
    def global_rank(self) -> int:
        """Which of them this one is, from 0."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this process is the one that writes and prints."""

    @property
    def device(self) -> torch.device:
        """Where tensors of this process live."""

    def setup(self, module: nn.Module, *optimizers: Optimizer) -> Any:
        """The module on its device and its optimisers, wrapped where processes must share gradients."""

    def to_device(self, obj: Any) -> Any:
        """A tensor where this process computes."""

    def backward(self, tensor: Tensor) -> None:
        """Gradients of a loss, shared by all processes."""

    def all_reduce(self, data: Tensor, *, reduce_op: str) -> Any:
        """A value of all processes as one."""

    def barrier(self) -> None:
        """Wait until every process is here."""

    def launch(self, function: Callable[..., Any]) -> Any:
        """Call the function with this place, in every process."""


class OneDevice:
    """One process on one device, for which torch is enough.

    >>> place = OneDevice(torch.device("cpu"))
    >>> place.launch(lambda here: here.world_size)
    1
    """

    world_size = 1
    global_rank = 0
    is_global_zero = True

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def setup(self, module: nn.Module, *optimizers: Optimizer) -> Any:
        """The module, moved, and its optimisers: parameters stay the same objects, so these keep theirs."""
        return (module.to(self.device), *optimizers)

    def to_device(self, obj: Any) -> Any:
        """A tensor on the device."""
        return obj.to(self.device)

    def backward(self, tensor: Tensor) -> None:
        """Gradients of a loss."""
        tensor.backward()

    def all_reduce(self, data: Tensor, *, reduce_op: str) -> Tensor:
        """The value itself, whatever the operation."""
        return data

    def barrier(self) -> None:
        """Nobody to wait for."""

    def launch(self, function: Callable[["OneDevice"], Result]) -> Result:
        """Call the function."""
        return function(self)


def runtime(*, accelerator: str, devices: int, strategy: str) -> Runtime:
    """Where to train: with torch alone where that is enough, else with Lightning Fabric, which must be installed.

    Args:
        accelerator: "auto", "cpu", "cuda" or "gpu", "mps"; others are Fabric's.
        devices: how many processes.
        strategy: "auto", or a strategy of Fabric.

    >>> runtime(accelerator="cpu", devices=1, strategy="auto").device
    device(type='cpu')
    """
    device = _torch_device(accelerator) if devices == 1 and strategy == "auto" else None
    if device is not None:
        return OneDevice(device)
    return _fabric(accelerator=accelerator, devices=devices, strategy=strategy)


def _torch_device(accelerator: object) -> torch.device | None:
    """The device of one process, if torch alone knows of it and it is there."""
    there = {"cuda:0": torch.cuda.is_available(), "mps:0": torch.backends.mps.is_available(), "cpu": True}
    places = _PLACES.get(accelerator, ()) if isinstance(accelerator, str) else ()
    return next((torch.device(place) for place in places if there[place]), None)


def _fabric(**settings: Any) -> Runtime:
    asked = ", ".join(f"{name}={quoted(value)}" for name, value in settings.items())
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise InputError(
            f"training with {asked} needs Lightning Fabric, which is not installed: "
            "pip install 'r2et[processes]'; "
            "one process on one device needs nothing more"
        ) from error
    try:
        return Fabric(**settings)
    except Exception as error:  # it has many kinds of its own
        raise InputError(f"training cannot run with {asked}: {error}") from error
