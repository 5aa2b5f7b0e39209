"""The layers and operations that are read, beside activations: a table for each way of reading them."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

#: linear modules that act on each row of a batch and add nothing
HOMOGENEOUS = (
    nn.Identity,
    nn.Flatten,
    nn.Unflatten,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
    nn.ZeroPad1d,
    nn.ZeroPad2d,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
)
CONVOLUTIONS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Conv1d: F.conv1d,
    nn.Conv2d: F.conv2d,
    nn.Conv3d: F.conv3d,
}
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MAXIMA = (nn.MaxPool1d, nn.MaxPool2d)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


#: what a layer computes with; a convolution's forward only calls the second
COMPUTING = ("forward", "_conv_forward")


def kind_of(layer: nn.Module) -> type[nn.Module] | None:
    """Which of the layers that are read a module is; a subclass counts if it computes the same."""
    for kind in type(layer).__mro__:
        if kind in (nn.Linear, *CONVOLUTIONS, *NORMS, *HOMOGENEOUS, *MAXIMA):
            same = all(getattr(type(layer), name, None) is getattr(kind, name, None) for name in COMPUTING)
            return kind if same and not any(name in vars(layer) for name in COMPUTING) else None
    return None


#: functions and methods that keep every entry in its row
RESHAPES = ("view", "reshape", "flatten", "mean", "squeeze", "unsqueeze", "contiguous")

#: functions and methods by name, as modules that do the same
AS_MODULES: dict[str, Callable[..., nn.Module]] = {
    "relu": lambda inplace=False: nn.ReLU(),
    "relu_": lambda: nn.ReLU(),
    "leaky_relu": lambda negative_slope=0.01, inplace=False: nn.LeakyReLU(negative_slope),
    "softplus": lambda beta=1.0, threshold=20.0: nn.Softplus(beta, threshold),
    "tanh": lambda: nn.Tanh(),
    "sigmoid": lambda: nn.Sigmoid(),
    "gelu": lambda approximate="none": nn.GELU(approximate),
    "silu": lambda inplace=False: nn.SiLU(),
    "max_pool2d": nn.MaxPool2d,
    "max_pool1d": nn.MaxPool1d,
    "avg_pool2d": nn.AvgPool2d,
    "avg_pool1d": nn.AvgPool1d,
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "adaptive_avg_pool1d": nn.AdaptiveAvgPool1d,
    "dropout": lambda p=0.5, training=False, inplace=False: nn.Dropout(p).train(training),
}
