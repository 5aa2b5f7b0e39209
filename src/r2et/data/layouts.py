"""How the features of one input lie, for pictures: the pixels of an image, the edges of a graph."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from r2et.errors import InputError
from r2et.numerics.values import check_count, check_kind, check_names, check_number, check_positive, quoted


@dataclass(frozen=True)
class ImageLayout:
    """An image whose channels were standardised.

    Args:
        shape: (channels, height, width).
        mean, std: of each channel, for pixels in [0, 1].

    >>> layout = ImageLayout(shape=(1, 2, 2), mean=(0.5,), std=(0.25,))
    >>> layout.standardise(torch.tensor([[[0.0, 1.0], [0.5, 0.75]]]))
    tensor([[[-2.,  2.],
             [ 0.,  1.]]])
    """

    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple | list) or len(self.shape) != 3:
            raise InputError(f"shape must be (channels, height, width), got shape={quoted(self.shape)}")
        for size in self.shape:
            check_count("shape", size)
        for name in ("mean", "std"):
            check_kind(name, getattr(self, name), (tuple, list), "(0.5,), one number a channel")
        for value in self.mean:
            check_number("mean", value)
        for value in self.std:
            check_positive("std", value)
        if not self.shape[0] == len(self.mean) == len(self.std):
            raise InputError(
                f"an image of shape {self.shape} has {self.shape[0]} channels, got {len(self.mean)} means and "
                f"{len(self.std)} standard deviations"
            )

    @property
    def features(self) -> int:
        """channels x height x width."""
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature, such as "pixel 3,7", or "red 3,7" with three channels."""
        channels, height, width = self.shape
        known = {1: ("pixel",), 3: ("red", "green", "blue")}
        kinds = known.get(channels) or tuple(f"channel {i} pixel" for i in range(channels))
        return tuple(
            f"{kind} {row},{column}" for kind in kinds for row in range(height) for column in range(width)
        )

    def standardise(self, pixels: Tensor) -> Tensor:
        """Pixels in [0, 1] (..., channels, height, width) in the units of x."""
        mean, std = self._scales(pixels)
        return (pixels - mean) / std

    def pixels(self, x: Tensor) -> Tensor:
        """Inputs (..., channels, height, width) as pixels in [0, 1], up to rounding."""
        mean, std = self._scales(x)
        return x * std + mean

    def bounds(self) -> tuple[Tensor | float, Tensor | float]:
        """What pixel values 0 and 1 are in the units of x: numbers for one channel, else (features,) each."""
        black, white = (self.standardise(torch.full((self.shape[0], 1, 1), value)) for value in (0.0, 1.0))
        if self.shape[0] == 1:
            return float(black), float(white)
        return black.expand(self.shape).flatten(), white.expand(self.shape).flatten()

    def _scales(self, like: Tensor) -> tuple[Tensor, Tensor]:
        # dtype and device of the image: a float64 mean would move grey values off their bounds
        mean, std = (torch.tensor(v, dtype=like.dtype, device=like.device) for v in (self.mean, self.std))
        return mean.view(-1, 1, 1), std.view(-1, 1, 1)


@dataclass(frozen=True, eq=False)
class GraphLayout:
    """The edges of an undirected graph: the upper triangle of its matrix, row by row, each one standardised.

    Args:
        regions: names of the R nodes.
        mean, std: of each of the R (R - 1) / 2 edges.

    >>> layout = GraphLayout(("a", "b", "c"), torch.zeros(3), torch.ones(3))
    >>> layout.names
    ('a - b', 'a - c', 'b - c')
    >>> layout.matrix(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[0., 1., 2.],
            [1., 0., 3.],
            [2., 3., 0.]])
    """

    regions: tuple[str, ...] = field(repr=False)
    mean: Tensor = field(repr=False)
    std: Tensor = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", check_names("regions", self.regions))
        for name in ("mean", "std"):
            check_kind(name, getattr(self, name), Tensor, "a tensor of one number an edge")
        for name, values in (("means", self.mean), ("standard deviations", self.std)):
            if values.shape != (self.features,):
                raise InputError(
                    f"{len(self.regions)} regions have {self.features} edges, got {name} of shape "
                    f"{tuple(values.shape)}"
                )

    @property
    def features(self) -> int:
        """How many edges there are."""
        return len(self.regions) * (len(self.regions) - 1) // 2

    @property
    def ends(self) -> Tensor:
        """The two regions of each edge, (2, edges)."""
        return torch.triu_indices(len(self.regions), len(self.regions), offset=1)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each edge: "region - other region"."""
        first, second = self.ends.tolist()
        return tuple(f"{self.regions[i]} - {self.regions[j]}" for i, j in zip(first, second, strict=True))

    def matrix(self, edges: Tensor) -> Tensor:
        """One value per edge (..., edges) as symmetric matrices (..., R, R) with zeros on the diagonal."""
        first, second = self.ends.to(edges.device)
        size = len(self.regions)
        matrices = edges.new_zeros(*edges.shape[:-1], size, size)
        matrices[..., first, second] = edges
        matrices[..., second, first] = edges
        return matrices

    def weights(self, x: Tensor) -> Tensor:
        """Inputs (..., edges) as edge weights, in the units of the matrices that came in."""
        return x * self.std.to(x) + self.mean.to(x)
