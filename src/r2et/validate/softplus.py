"""A smooth copy of a model: softplus in place of ReLU (the paper's baseline SP)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from r2et.errors import ModelError
from r2et.numerics.modes import copied
from r2et.numerics.preflight import check_module
from r2et.numerics.values import check_positive
from r2et.validate.tracing import trace


def smooth(model: nn.Module, beta: float = 5.0) -> nn.Module:
    """A deep copy of a model in which softplus(z) = log(1 + exp(beta z)) / beta stands for ReLU.

    With relu(z) -> softplus(z), LeakyReLU a z + (1 - a) relu(z) and ReLU6 or Hardtanh
    low + relu(z - low) - relu(z - high) follow. As beta grows the outputs converge to the model's, at a rate of
    1 / beta; a small beta changes predictions, so fine-tune the copy. A Softplus that is sharper than beta gets
    beta. PReLU, RReLU, max-pooling and nn.RNN with nonlinearity="relu" are left as they are; `check` reports them.

    Names, values and sharing of parameters, buffers and layers stay, and so do the training flags. A model that
    calls F.relu, torch.relu, h.relu_() and the like in a forward of its own comes back inside a module that swaps
    the calls while it runs; its state_dict and the names of its parameters and layers are those of the model.

    Args:
        model: any module; it is not changed.
        beta: sharpness, above zero.

    >>> model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> smooth(model, beta=2.0)[1]
    Softplus(beta=2.0, threshold=20.0)
    """
    check_module(model)
    check_positive("beta", beta)
    if any(isinstance(layer, torch.jit.ScriptModule) for layer in model.modules()):
        raise ModelError(
            f"{type(model).__name__} is compiled by TorchScript and cannot be rewritten: smooth the model "
            "before torch.jit.script or torch.jit.trace"
        )
    result = _swap_layers(copied(model), beta)
    # a lone layer would be traced into its own code
    lone = type(result) is nn.Softplus
    return SmoothCalls(result, beta) if not lone and _may_call_relu(result) else result


def _swap_layers(model: nn.Module, beta: float) -> nn.Module:
    swapped: dict[int, nn.Module] = {}

    def swap(layer: nn.Module) -> nn.Module:
        if id(layer) not in swapped:
            swapped[id(layer)] = _smooth_layer(layer, beta).train(layer.training)
        return swapped[id(layer)]

    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is not None and type(child) in _LAYERS:
                parent.add_module(name, swap(child))
        if isinstance(parent, nn.TransformerEncoderLayer) and parent.activation_relu_or_gelu == 1:
            # the fused inference kernel would go on computing ReLU
            parent.activation_relu_or_gelu = 0
    return swap(model) if type(model) in _LAYERS else model


_LAYERS = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.ReLU6, nn.Hardtanh, nn.Softplus)


def _smooth_layer(layer: nn.Module, beta: float) -> nn.Module:
    if isinstance(layer, nn.Softplus):
        return layer if layer.beta <= beta else nn.Softplus(beta)
    if isinstance(layer, nn.LeakyReLU):
        return SmoothLeakyReLU(layer.negative_slope, beta)
    if isinstance(layer, nn.PReLU):
        return SmoothPReLU(layer, beta)
    if isinstance(layer, nn.Hardtanh):  # ReLU6 is one
        return SmoothHardtanh(layer.min_val, layer.max_val, beta)
    return nn.Softplus(beta)


class SmoothLeakyReLU(nn.Module):
    """a z + (1 - a) softplus(z), elementwise.

    >>> SmoothLeakyReLU(0.5, beta=1e3)(torch.tensor([-2.0, 2.0]))
    tensor([-1.,  2.])
    """

    def __init__(self, negative_slope: float, beta: float) -> None:
        super().__init__()
        self.negative_slope, self.beta = negative_slope, beta

    def forward(self, z: Tensor) -> Tensor:
        """The same shape as z."""
        return _leaky(z, self.negative_slope, self.beta)

    def extra_repr(self) -> str:
        """The settings."""
        return f"negative_slope={self.negative_slope}, beta={self.beta}"


class SmoothPReLU(nn.Module):
    """a z + (1 - a) softplus(z) with the slopes a that a PReLU has learned, under the same name.

    >>> SmoothPReLU(nn.PReLU(init=0.5), beta=1e3)(torch.tensor([[-2.0], [2.0]])).detach()
    tensor([[-1.],
            [ 2.]])
    """

    def __init__(self, layer: nn.PReLU, beta: float) -> None:
        super().__init__()
        self.weight, self.beta = layer.weight, beta

    def forward(self, z: Tensor) -> Tensor:
        """The same shape as z."""
        bend = z - F.softplus(z, self.beta)
        # PReLU itself multiplies by its slopes along the channel axis where it is given negative values alone
        return F.softplus(z, self.beta) + F.prelu(bend, self.weight)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}"


class SmoothHardtanh(nn.Module):
    """low + softplus(z - low) - softplus(z - high), elementwise: a smooth clamp, and ReLU6 for 0 and 6.

    >>> SmoothHardtanh(0.0, 6.0, beta=1e3)(torch.tensor([-2.0, 3.0, 9.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, low: float, high: float, beta: float) -> None:
        super().__init__()
        self.low, self.high, self.beta = low, high, beta

    def forward(self, z: Tensor) -> Tensor:
        """The same shape as z."""
        return _clamp(z, self.low, self.high, self.beta)

    def extra_repr(self) -> str:
        """The settings."""
        return f"low={self.low}, high={self.high}, beta={self.beta}"


def _leaky(z: Tensor, slope: float, beta: float) -> Tensor:
    return slope * z + (1 - slope) * F.softplus(z, beta)


def _clamp(z: Tensor, low: float, high: float, beta: float) -> Tensor:
    return low + F.softplus(z - low, beta) - F.softplus(z - high, beta)


def _relu_call(z: Tensor, beta: float, inplace: bool = False) -> Tensor:
    return F.softplus(z, beta)


def _leaky_call(z: Tensor, beta: float, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    return _leaky(z, negative_slope, beta)


def _relu6_call(z: Tensor, beta: float, inplace: bool = False) -> Tensor:
    return _clamp(z, 0.0, 6.0, beta)


def _hardtanh_call(
    z: Tensor, beta: float, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    return _clamp(z, min_val, max_val, beta)


def _softplus_call(z: Tensor, sharpness: float, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return F.softplus(z, min(beta, sharpness), threshold)


#: by the name of the torch function, without the underscore of its in-place form; arguments as it takes them
_CALLS: dict[str, Callable[..., Tensor]] = {
    "relu": _relu_call,
    "leaky_relu": _leaky_call,
    "relu6": _relu6_call,
    "hardtanh": _hardtanh_call,
    "softplus": _softplus_call,
}


def _name(func: Any) -> str:
    # operators of exported programs are called relu.default
    return str(getattr(func, "__name__", func)).split(".")[0]


class _SwapCalls(TorchFunctionMode):
    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        name = _name(func)
        replacement = _CALLS.get(name.removesuffix("_"))
        if replacement is None:
            return func(*args, **options)
        z, *rest = args if args else (options.pop("input"),)
        if not (name.endswith("_") or options.get("inplace") or (rest and rest[-1] is True)):
            return replacement(z, self.beta, *rest, **options)
        # a caller may ignore what an in-place call returns; the clone keeps what the derivative needs
        return z.copy_(replacement(z.clone(), self.beta, *rest, **options))


class SmoothCalls(nn.Module):
    """Runs a model with smooth functions in place of its calls of relu, leaky_relu, relu6 and hardtanh.

    Parameters, buffers and layers are the model's own, under the model's names; other attributes are looked up
    in the model. Calls are swapped by a TorchFunctionMode, which sees no code that was compiled before.

    >>> class Net(nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(x)
    >>> smooth(Net(), beta=1.0)(torch.zeros(1))
    tensor([0.6931])
    """

    model: nn.Module

    def __init__(self, model: nn.Module, beta: float) -> None:
        super().__init__()
        self.beta = beta
        # not registered as a layer: that would put "model." in front of every name
        self.__dict__["model"] = model
        for registry in ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules"):
            self.__dict__[registry] = model.__dict__[registry]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # a model's own __deepcopy__ or __getstate__ would copy the model without this module around it
            if name.startswith("__") or "model" not in self.__dict__:
                raise
            return getattr(self.model, name)

    @property
    def training(self) -> bool:
        """The model's own flag: a second one could differ from it."""
        return self.model.training

    @training.setter
    def training(self, mode: bool) -> None:
        if "model" in self.__dict__:  # not while nn.Module sets up
            self.model.training = mode

    def train(self, mode: bool = True) -> "SmoothCalls":
        """Set the training flags of the model."""
        self.model.train(mode)
        return self

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The model's state_dict."""
        return self.model.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a state_dict of the model, or of the model this is a copy of."""
        return self.model.load_state_dict(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the model with smooth functions."""
        with _SwapCalls(self.beta):
            return self.model(*args, **kwargs)


def _leaf(layer: nn.Module) -> bool:
    # torch's own layers with parts, such as TransformerEncoderLayer, call relu themselves
    return type(layer).__module__.startswith("torch.nn") and (
        isinstance(layer, nn.MultiheadAttention) or not list(layer.children())
    )


def _may_call_relu(model: nn.Module) -> bool:
    """Whether a forward calls one of the functions by name; a forward that cannot be traced may."""
    try:
        graph = trace(model, _leaf).graph
    except Exception:
        return True
    return any(
        node.op in ("call_function", "call_method") and _name(node.target).removesuffix("_") in _CALLS
        for node in graph.nodes
    )
