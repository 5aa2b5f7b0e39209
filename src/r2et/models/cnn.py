"""The classic convolutional network that the paper embeds MNIST digits with (App. B.1)."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor, nn

from r2et.errors import InputError
from r2et.models.architecture import (
    MODELS,
    activation_maker,
    check_layers,
    check_shape,
    confirmed,
    describe_activation,
    whole_numbers,
)
from r2et.numerics.values import check_choice, check_count

Pool = Literal["max", "avg"]


@MODELS.register("cnn")
class CNN(nn.Module):
    """Two 3 x 3 convolutions, each followed by pooling, and three dense layers (App. B.1, "Image data").

    (N, channels, height, width) -> (N, classes). The convolutions have no padding, as in LeNet; pooling halves
    height and width. The paper does not state its widths: the dense ones here are LeNet's.

    The penultimate layer, for `r2et.explainers.Activation`, is called `CNN.penultimate`.

    Args:
        channels: of the images.
        size: height and width of the images, or one number for both; at least 10.
        classes: logits, or the width of the embedding inside of a `Siamese`.
        filters: of the two convolutions.
        hidden: widths of the first two dense layers.
        pool: "max", or "avg", which has a derivative everywhere.
        activation: between the layers, as in `MLP`.
        beta: sharpness of softplus; only for that activation.

    >>> import torch
    >>> model = CNN(channels=1, size=28, classes=10)
    >>> model(torch.zeros(4, 1, 28, 28)).shape
    torch.Size([4, 10])
    """

    penultimate: ClassVar[str] = "dense.3"

    def __init__(
        self,
        channels: int,
        size: int | Sequence[int],
        classes: int,
        filters: Sequence[int] = (16, 32),
        hidden: Sequence[int] = (120, 84),
        pool: Pool = "max",
        activation: str = "relu",
        beta: float | None = None,
    ) -> None:
        super().__init__()
        sides = [size, size] if isinstance(size, int) else whole_numbers("size", size, 2)
        if min(sides) < 10:
            raise InputError(f"images must be at least 10 pixels high and wide, got size={size!r}")
        check_count("channels", channels)
        check_count("classes", classes)
        filters, hidden = whole_numbers("filters", filters, 2), whole_numbers("hidden", hidden, 2)
        check_choice("pool", pool, get_args(Pool))
        make_activation = activation_maker(activation, beta)
        pooling = nn.MaxPool2d if pool == "max" else nn.AvgPool2d
        left = [((side - 2) // 2 - 2) // 2 for side in sides]
        check_layers("a CNN", channels, 9 * filters[0], filters[1])
        check_layers("a CNN", filters[1] * left[0] * left[1], *hidden, classes)
        self.image = (channels, *sides)
        self.features = nn.Sequential(
            nn.Conv2d(channels, filters[0], 3),
            make_activation(),
            pooling(2),
            nn.Conv2d(filters[0], filters[1], 3),
            make_activation(),
            pooling(2),
        )
        self.dense = nn.Sequential(
            nn.Linear(filters[1] * left[0] * left[1], hidden[0]),
            make_activation(),
            nn.Linear(hidden[0], hidden[1]),
            make_activation(),
            nn.Linear(hidden[1], classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits (N, classes) of images (N, channels, height, width)."""
        check_shape(x, self.image, "this CNN")
        logits: Tensor = self.dense(self.features(x).flatten(start_dim=1))
        return logits

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again; read off the layers that are there."""
        convolutions = [layer for layer in self.features if isinstance(layer, nn.Conv2d)]
        dense = [layer for layer in self.dense if isinstance(layer, nn.Linear)]
        settings = {
            "channels": convolutions[0].in_channels,
            "size": list(self.image[1:]),
            "classes": dense[-1].out_features,
            "filters": [layer.out_channels for layer in convolutions],
            "hidden": [layer.out_features for layer in dense[:-1]],
            "pool": "avg" if isinstance(self.features[2], nn.AvgPool2d) else "max",
            **describe_activation(self.features[1]),
        }
        return confirmed(self, CNN, settings)
