"""What looking at a model must leave as it was: the mode of its layers, its buffers, and the random states."""

import copy
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from r2et.errors import InputError, ModelError, in_words


class _Here(threading.local):
    """What this thread is in the middle of."""

    def __init__(self) -> None:
        self.models: set[int] = set()


_HERE = _Here()
#: re-entrant, because a model's own eval() may measure
_LOCK = threading.RLock()
#: of every layer that some thread evaluates: how many do, and the mode that it goes back to after the last one
_MODES: dict[int, tuple[int, bool]] = {}


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its layers back into the mode it was in.

    Several threads may do so with one model, or with models that share layers: the modes come back when the last
    of them leaves. Inside another `evaluating` of the same model it costs nothing.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train()
    >>> with evaluating(model):
    ...     model[1].training
    False
    >>> model[1].training
    True
    """
    if id(model) in _HERE.models:
        yield
        return
    layers = list(model.modules())
    _enter(layers)
    _HERE.models.add(id(model))
    try:
        _switch_off(model, layers)
        yield
    finally:
        _HERE.models.discard(id(model))
        _leave(layers)


def _enter(layers: list[nn.Module]) -> None:
    with _LOCK:
        for layer in layers:
            count, mode = _MODES.get(id(layer), (0, layer.training))
            _MODES[id(layer)] = count + 1, mode


def _switch_off(model: nn.Module, layers: list[nn.Module]) -> None:
    with _LOCK:
        if any(layer.training for layer in layers):
            try:
                # a model's own eval() decides what evaluation mode means for it
                model.eval()
            except NotImplementedError:  # an exported program, whose mode is part of its code
                for layer in layers:
                    layer.training = False


def _leave(layers: list[nn.Module]) -> None:
    with _LOCK:
        for layer in layers:
            count, mode = _MODES.pop(id(layer))
            if count > 1:
                _MODES[id(layer)] = count - 1, mode
            elif layer.training != mode:
                layer.training = mode


def copied(model: nn.Module) -> nn.Module:
    """A deep copy of a model, also where a forward pass has left results in it.

    Weights that `torch.nn.utils.spectral_norm` computes and activations that a model remembers belong to a graph,
    which `copy.deepcopy` refuses: they are copied as numbers.

    >>> model = torch.nn.utils.weight_norm(nn.Linear(2, 2))
    >>> _ = model(torch.zeros(1, 2))
    >>> copied(model).weight.requires_grad
    False
    """
    left = {
        id(tensor): tensor.detach().clone()
        for layer in model.modules()
        for tensor in _tensors([vars(layer), layer._buffers])
        if not tensor.is_leaf
    }
    try:
        return copy.deepcopy(model, left)
    except Exception as error:
        raise ModelError(
            f"{type(model).__name__} cannot be copied ({in_words(error)}), and r2et works on a copy: give it "
            "a __deepcopy__, or keep what is no part of the model outside of it"
        ) from error


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors in a value, in lists, tuples and dictionaries too."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


@contextmanager
def buffers_kept(model: nn.Module) -> Iterator[None]:
    """Give buffers that a forward pass changed their values back, and their places if it replaced them."""
    saved = [
        (layer, name, buffer, buffer.clone())
        for layer in model.modules()
        for name, buffer in layer._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for layer, name, buffer, value in saved:
                # a write would stop the backward pass of an explanation that is to be differentiated
                if not torch.equal(buffer, value):
                    buffer.copy_(value)
                if layer._buffers.get(name) is not buffer:
                    layer._buffers[name] = buffer


@contextmanager
def weights_kept(model: nn.Module, name: str) -> Iterator[None]:
    """Give weights that other people's code changed their values back, and raise: it measured another model.

    Args:
        model: whose parameters must stay.
        name: of the code, for the message.
    """
    saved = {key: (parameter, parameter.detach().clone()) for key, parameter in model.named_parameters()}
    written: list[str] = []
    try:
        yield
    finally:
        with torch.no_grad():
            for key, (parameter, value) in saved.items():
                if parameter.shape != value.shape:
                    parameter.data = value
                elif torch.allclose(parameter, value, rtol=0.0, atol=0.0, equal_nan=True):
                    continue
                else:
                    parameter.copy_(value)
                written.append(key)
    if written:
        raise InputError(
            f"{name} changed the model's weights, first {written[0]!r}; they are what they were again, and what "
            "it found is about another model: let it work on copy.deepcopy(model)"
        )


@contextmanager
def random_states_kept(device: torch.device) -> Iterator[Callable[[], bool]]:
    """Give Python's, numpy's and torch's random states back; yields whether one of them has moved since.

    >>> with random_states_kept(torch.device("cpu")) as moved:
    ...     before = moved()
    ...     _ = torch.randn(1)
    ...     before, moved()
    (False, True)
    """
    python, numpy, cpu = random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()
    gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    start = _fingerprint(device)
    try:
        yield lambda: _fingerprint(device) != start
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu, device)


def _fingerprint(device: torch.device) -> tuple[Any, ...]:
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    numpy = pickle.dumps(np.random.get_state(legacy=False))
    return random.getstate(), numpy, *(state.numpy().tobytes() for state in states)


def own_draws(generator: torch.Generator | None, x: Tensor) -> torch.Generator:
    """The generator, or one that draws what torch's global one would draw next and leaves that where it is.

    >>> first = torch.randn(2, generator=own_draws(None, torch.zeros(1)))
    >>> torch.equal(first, torch.randn(2))
    True
    """
    if generator is not None:
        return generator
    state = torch.cuda.get_rng_state(x.device) if x.device.type == "cuda" else torch.get_rng_state()
    return torch.Generator(x.device if x.device.type == "cuda" else "cpu").set_state(state)
