"""Copies of a model's structure that share its tensors: what is done to one, no other thread can see."""

from collections import OrderedDict
from types import MethodType

import torch
from torch import nn


def twin(model: nn.Module) -> nn.Module:
    """A copy of a model, module by module, with the same parameters and buffers.

    Hooks that are put on it, attributes that its forward sets and the modes of its layers stay with it: a model
    that other threads run can be looked at in this way. TorchScript modules stand for themselves.

    >>> model = nn.Sequential(nn.Linear(3, 2))
    >>> other = twin(model).eval()
    >>> other[0].weight is model[0].weight, other.training, model.training
    (True, False, True)
    """
    twins: dict[int, nn.Module] = {}
    own = _copy(model, twins)
    for each in twins.values():
        _lead_home(each, twins)
    return own


def _copy(module: nn.Module, twins: dict[int, nn.Module]) -> nn.Module:
    """The twin of a module and of all below it; a module that is used twice has one twin."""
    if isinstance(module, torch.jit.ScriptModule):
        return module
    if id(module) not in twins:
        twins[id(module)] = each = object.__new__(type(module))
        for name, value in list(module.__dict__.items()):
            # registries, hooks and what a forward may remember
            own = value.copy() if type(value) in (dict, OrderedDict, list, set) else value
            # a module may be kept beside the registered ones, to keep its name out of the state_dict
            each.__dict__[name] = _copy(own, twins) if isinstance(own, nn.Module) else own
        registered = each.__dict__["_modules"]
        registered.update({name: _copy(child, twins) for name, child in registered.items() if child is not None})
    return twins[id(module)]


def _lead_home(each: nn.Module, twins: dict[int, nn.Module]) -> None:
    """Lead bound methods of a module to its twin."""
    for name, value in list(each.__dict__.items()):
        if isinstance(value, MethodType) and id(value.__self__) in twins:
            each.__dict__[name] = MethodType(value.__func__, twins[id(value.__self__)])
