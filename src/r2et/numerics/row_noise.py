"""Noise that belongs to a row: the same numbers for it alone, in any batch and in any chunk."""

import hashlib
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def row_normal(
    x: Tensor,
    seed: int,
    *,
    draw: int = 0,
    samples: int = 1,
    extra: int = 0,
    drawn_as: torch.dtype = torch.float64,
) -> Tensor:
    """Standard normal numbers from the seed, the draw and each row's own values.

    Args:
        x: (N, *features).
        seed: of all draws.
        draw: which draw; each has numbers of its own.
        samples: how many vectors for each row.
        extra: how many more numbers than features in each of them.
        drawn_as: the dtype in which they are drawn.

    Returns:
        (samples, N, features + extra), with the dtype and on the device of x.

    >>> x = torch.randn(4, 3)
    >>> torch.equal(row_normal(x, 0)[:, 2:3], row_normal(x[2:3], 0))
    True
    """
    rows = x.detach().cpu().double().flatten(start_dim=1).numpy()
    drawn = []
    for row in rows:
        own = torch.Generator("cpu").manual_seed(_row_seed(row, seed, draw, size=7))
        shape = samples, len(row) + extra
        drawn.append(torch.randn(shape, generator=own, dtype=drawn_as, device="cpu"))
    return torch.stack(drawn, 1).to(x)


def row_normal_chunks(row: Tensor, samples: int, *, chunk: int, seed: int) -> Iterator[Tensor]:
    """Standard normal numbers (copies, *features) from the seed and one row's own values, a chunk at a time.

    Args:
        row: (*features).
        samples: copies in all.
        chunk: copies in one chunk; the numbers do not depend on it.
        seed: of all draws.

    >>> row = torch.randn(3)
    >>> whole, parts = (torch.cat([*row_normal_chunks(row, 5, chunk=size, seed=0)]) for size in (5, 2))
    >>> torch.equal(whole, parts)
    True
    """
    values = row.detach().cpu().double().numpy()
    # unlike torch's, numpy's numbers do not depend on how many are drawn at once
    source = np.random.default_rng(_row_seed(values, seed, 0, size=16))
    for first in range(0, samples, chunk):
        yield torch.from_numpy(source.standard_normal((min(chunk, samples - first), *values.shape))).to(row)


def _row_seed(values: NDArray[np.float64], seed: int, draw: int, *, size: int) -> int:
    """A number of `size` bytes from a row's values, the seed and the draw."""
    digest = hashlib.blake2b(
        values.tobytes(), digest_size=size, key=str(seed).encode(), salt=draw.to_bytes(8, "little")
    ).digest()
    return int.from_bytes(digest, "little")
