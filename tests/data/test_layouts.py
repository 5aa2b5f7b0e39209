import numpy as np
import pytest
import torch

from r2et.data import GraphLayout, ImageLayout
from r2et.errors import InputError


class TestImage:
    LAYOUT = ImageLayout((3, 2, 4), (0.1, 0.2, 0.3), (0.5, 0.25, 1.0))

    def test_there_and_back(self) -> None:
        pixels = torch.rand(5, 3, 2, 4)
        x = self.LAYOUT.standardise(pixels)
        assert torch.allclose(x[:, 1], (pixels[:, 1] - 0.2) / 0.25)
        assert torch.allclose(self.LAYOUT.pixels(x), pixels, atol=1e-6)

    def test_bounds_are_black_and_white(self) -> None:
        lower, upper = (torch.as_tensor(bound).view(3, 2, 4) for bound in self.LAYOUT.bounds())
        assert torch.equal(lower, self.LAYOUT.standardise(torch.zeros(3, 2, 4)))
        assert torch.equal(upper, self.LAYOUT.standardise(torch.ones(3, 2, 4)))
        assert ImageLayout((1, 2, 2), (0.5,), (0.25,)).bounds() == (-2.0, 2.0)

    def test_names_follow_the_flattened_axes(self) -> None:
        names = np.array(self.LAYOUT.names).reshape(3, 2, 4)
        assert (names[0, 1, 2], names[1, 0, 3], names[2, 1, 0]) == ("red 1,2", "green 0,3", "blue 1,0")
        assert ImageLayout((1, 2, 2), (0.0,), (1.0,)).names == ("pixel 0,0", "pixel 0,1", "pixel 1,0", "pixel 1,1")
        assert ImageLayout((2, 1, 1), (0.0,) * 2, (1.0,) * 2).names == (
            "channel 0 pixel 0,0",
            "channel 1 pixel 0,0",
        )

    def test_a_mean_for_each_channel(self) -> None:
        with pytest.raises(InputError, match=r"\(3, 2, 2\) has 3 channels, got 1 means"):
            ImageLayout((3, 2, 2), (0.5,), (0.5,))


class TestGraph:
    def test_matrix_and_names_agree_with_numpys_triangle(self) -> None:
        size = 7
        regions = tuple("abcdefg")
        rng = np.random.default_rng(0)
        matrix = rng.normal(size=(3, size, size))
        matrix += matrix.transpose(0, 2, 1)
        first, second = np.triu_indices(size, 1)
        edges = torch.from_numpy(matrix[:, first, second])
        layout = GraphLayout(regions, torch.zeros(21), torch.ones(21))
        made = layout.matrix(edges)
        matrix[:, range(size), range(size)] = 0
        np.testing.assert_array_equal(made.numpy(), matrix)
        assert layout.names == tuple(f"{regions[i]} - {regions[j]}" for i, j in zip(first, second, strict=True))

    def test_weights_undo_the_scaling(self) -> None:
        mean, std, raw = torch.rand(3), torch.rand(3) + 0.5, torch.rand(4, 2, 3)
        assert torch.allclose(GraphLayout(("a", "b", "c"), mean, std).weights((raw - mean) / std), raw, atol=1e-6)

    def test_one_mean_an_edge(self) -> None:
        with pytest.raises(InputError, match=r"3 regions have 3 edges, got means of shape \(2,\)"):
            GraphLayout(("a", "b", "c"), torch.zeros(2), torch.ones(3))
