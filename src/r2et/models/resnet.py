"""Residual networks (He et al. 2016): ResNet-18 for small and large images, and smaller ones (App. B.1)."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.files.reading import regular_file
from r2et.models.architecture import (
    MODELS,
    activation_maker,
    check_layers,
    check_shape,
    confirmed,
    describe_activation,
    whole_numbers,
)
from r2et.numerics.values import check_choice, check_count, check_path, quoted

Stem = Literal["small", "large"]
#: He et al.'s deepest has 540; a number in a foreign file must not keep us building for days
MOST_BLOCKS = 1000


class BasicBlock(nn.Module):
    """act(x' + BN(conv(act(BN(conv(x)))))) with 3 x 3 convolutions; x' is x, or a 1 x 1 convolution of it.

    (N, before, height, width) -> (N, after, height / stride, width / stride).

    >>> BasicBlock(4, 8, stride=2, make_activation=nn.ReLU)(torch.zeros(1, 4, 6, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, before: int, after: int, stride: int, make_activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.activation1 = make_activation()
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )
        self.activation2 = make_activation()

    def forward(self, x: Tensor) -> Tensor:
        """(N, after, height / stride, width / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        inner = self.bn2(self.conv2(self.activation1(self.bn1(self.conv1(x)))))
        result: Tensor = self.activation2(shortcut + inner)
        return result


@MODELS.register("resnet")
class ResNet(nn.Module):
    """A residual network of basic blocks: (N, channels, height, width) -> (N, classes); ResNet-18 by default.

    - ResNet-18 for 32 x 32, the paper's for CIFAR-10: `ResNet(3, 10)`, 11,173,962 parameters.
    - ResNet-18 for larger images, torchvision's name by name: `ResNet(3, 1000, stem="large")`.
    - A small one for CPU work: `ResNet(3, 10, widths=(16, 32, 64), blocks=1)`.

    Parameters are called as in torchvision (conv1, bn1, layer1.0.conv1, layer2.0.downsample.0, fc), so that its
    weights load by name; see `load_weights`. The penultimate layer, the means of the last stage's maps (512
    neurons in ResNet-18), is called `ResNet.penultimate`: `explainers.Activation(layer="avgpool")` (Sec. 6.2).

    In evaluation mode BatchNorm is a fixed affine map; in training a sample's logits depend on its batch.

    Args:
        channels: of the images.
        classes: logits; None = the penultimate layer's values (N, widths[-1]), to embed images for a `Siamese`.
        widths: channels of each stage; each stage after the first halves height and width.
        blocks: of each stage, or one number for all of them.
        stem: "small" (3 x 3 convolution), or "large" (7 x 7 convolution and max-pooling, a quarter of the size).
        activation: of the blocks and the stem, as in `MLP`.
        beta: sharpness of softplus; only for that activation.

    >>> model = ResNet(1, 2, widths=(4, 8), blocks=1).eval()
    >>> model(torch.zeros(3, 1, 16, 16)).shape
    torch.Size([3, 2])
    >>> import r2et
    >>> r2et.explainers.Activation(layer=ResNet.penultimate)(model, torch.zeros(3, 1, 16, 16)).shape
    torch.Size([3, 8])
    """

    penultimate: ClassVar[str] = "avgpool"

    def __init__(
        self,
        channels: int,
        classes: int | None,
        widths: Sequence[int] = (64, 128, 256, 512),
        blocks: int | Sequence[int] = 2,
        stem: Stem = "small",
        activation: str = "relu",
        beta: float | None = None,
    ) -> None:
        super().__init__()
        check_count("channels", channels)
        widths = whole_numbers("widths", widths)
        each = [blocks] * len(widths) if isinstance(blocks, int) else blocks
        counts = whole_numbers("blocks", each, len(widths))
        if sum(counts) > MOST_BLOCKS:
            raise InputError(f"a ResNet has at most {MOST_BLOCKS} blocks, got {quoted(blocks)}")
        check_layers("a ResNet", channels, *(9 * width for width in widths))
        check_choice("stem", stem, get_args(Stem))
        make_activation = activation_maker(activation, beta)
        if stem == "small":
            self.conv1 = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.activation = make_activation()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if stem == "large" else nn.Identity()
        self.stages: list[str] = []
        before = widths[0]
        for number, (width, count) in enumerate(zip(widths, counts, strict=True), 1):
            stage = nn.Sequential()
            for place in range(count):
                stage.append(BasicBlock(before, width, 2 if number > 1 and place == 0 else 1, make_activation))
                before = width
            self.stages.append(f"layer{number}")
            self.add_module(self.stages[-1], stage)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc: nn.Module = nn.Identity()
        if classes is not None:
            check_count("classes", classes)
            check_layers("a ResNet", before, classes)
            self.fc = nn.Linear(before, classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes), or (N, widths[-1]) without classes, of images (N, channels, height, width)."""
        check_shape(x, (self.conv1.in_channels, "height", "width"), "this ResNet")
        maps = self.maxpool(self.activation(self.bn1(self.conv1(x))))
        for stage in self.stages:
            maps = self.get_submodule(stage)(maps)
        logits: Tensor = self.fc(self.avgpool(maps).flatten(start_dim=1))
        return logits

    def load_weights(self, weights: Mapping[str, Tensor] | str | os.PathLike[str]) -> list[str]:
        """Load weights of another ResNet by name, such as those of torchvision's resnet18 into `stem="large"`.

        The last layer keeps its own values if the weights have another number of classes. Weights for colour
        images go into a model for grey ones (1 channel) summed over channels: a grey image then gives what its
        grey-as-colour copy gave. Nothing is loaded if anything else does not fit.

        Args:
            weights: a state_dict, or the path of a safetensors file. Of a .pth file:
                `torch.load(path, weights_only=True)`.

        Returns:
            Names of the parameters that kept their own values, which are to be trained.

        >>> colour, grey = ResNet(3, 10, widths=(4,)).eval(), ResNet(1, 2, widths=(4,)).eval()
        >>> grey.load_weights(colour.state_dict())
        ['fc.weight', 'fc.bias']
        """
        own = self.state_dict()
        loaded = _read(weights)
        kept = []
        adapted = loaded
        if _shapes(own, "fc.") != _shapes(loaded, "fc."):
            kept = list(_shapes(own, "fc."))
            adapted = {name: value for name, value in loaded.items() if not name.startswith("fc.")}
            adapted |= {name: own[name] for name in kept}
        if self.conv1.in_channels == 1 and "conv1.weight" in adapted:
            adapted["conv1.weight"] = adapted["conv1.weight"].sum(1, keepdim=True)
        # files from before PyTorch 0.4.1 do not have the counters, and an evaluation does not need them
        missing = [name for name in own if name not in adapted and not name.endswith("num_batches_tracked")]
        strange = [name for name in adapted if name not in own]
        if missing or strange:
            raise InputError(
                f"these weights are of another network: {len(missing)} names of this ResNet are missing "
                f"({missing[:3]}), {len(strange)} are unknown ({strange[:3]})"
            )
        for name, value in adapted.items():
            if value.shape != own[name].shape:
                raise InputError(
                    f"weights {name!r} have shape {tuple(value.shape)}, this ResNet needs "
                    f"{tuple(own[name].shape)}; torchvision's resnet18 is ResNet(3, classes, stem='large')"
                )
        self.load_state_dict(own | adapted)
        return kept

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again; read off the layers that are there."""
        stages: list[Any] = [self.get_submodule(name) for name in self.stages]
        settings = {
            "channels": self.conv1.in_channels,
            "classes": self.fc.out_features if isinstance(self.fc, nn.Linear) else None,
            "widths": [stage[-1].conv2.out_channels for stage in stages],
            "blocks": [len(stage) for stage in stages],
            "stem": "large" if isinstance(self.maxpool, nn.MaxPool2d) else "small",
            **describe_activation(self.activation),
        }
        return confirmed(self, ResNet, settings)


def _read(weights: Mapping[str, Tensor] | str | os.PathLike[str]) -> dict[str, Tensor]:
    if isinstance(weights, Mapping):
        return dict(weights)
    check_path("weights", weights)
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    regular_file(weights, InputError)
    try:
        return dict(load_file(os.fspath(weights)))
    except (OSError, SafetensorError) as error:
        raise InputError(f"{os.fspath(weights)!r} is not a readable safetensors file: {error}") from error


def _shapes(weights: Mapping[str, Tensor], prefix: str) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in weights.items() if name.startswith(prefix)}
