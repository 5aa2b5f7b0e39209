"""Noise of a row: the same alone, in a batch and in chunks; another one for other values, seeds and draws."""

import hashlib

import numpy as np
import torch

from r2et.numerics.row_noise import row_normal, row_normal_chunks
from tests.models_with_answers import normal


def test_a_row_has_the_same_noise_in_every_batch():
    x = normal(5, 2, 3)
    whole = row_normal(x, 7, samples=4)
    assert whole.shape == (4, 5, 6)
    for row in range(5):
        assert torch.equal(row_normal(x[row : row + 1], 7, samples=4), whole[:, row : row + 1])


def test_seed_draw_and_values_change_it():
    x = normal(1, 3)
    first = row_normal(x, 0)
    assert not torch.equal(first, row_normal(x, 1))
    assert not torch.equal(first, row_normal(x, 0, draw=1))
    assert not torch.equal(first, row_normal(x + 1e-12, 0))


def test_the_numbers_are_those_of_the_formula():
    """Figures of audits rest on them: they must not change with a refactoring."""
    x = normal(1, 3)
    key = hashlib.blake2b(x.numpy().tobytes(), digest_size=7, key=b"5", salt=(2).to_bytes(8, "little")).digest()
    source = torch.Generator().manual_seed(int.from_bytes(key, "little"))
    expected = torch.randn(3, generator=source, dtype=torch.float64)
    assert torch.equal(row_normal(x, 5, draw=2)[0, 0], expected)
    # without a draw, as audits and smoothing have it
    key = hashlib.blake2b(x.numpy().tobytes(), digest_size=7, key=b"5").digest()
    source = torch.Generator().manual_seed(int.from_bytes(key, "little"))
    expected = torch.randn(4, 3, generator=source, dtype=torch.float32).double()
    assert torch.equal(row_normal(x, 5, samples=4, drawn_as=torch.float32)[:, 0], expected)
    key = hashlib.blake2b(x[0].numpy().tobytes(), digest_size=16, key=b"5").digest()
    expected = np.random.default_rng(int.from_bytes(key, "little")).standard_normal((4, 3))
    chunks = list(row_normal_chunks(x[0], 4, chunk=3, seed=5))
    assert [len(part) for part in chunks] == [3, 1]
    assert np.array_equal(torch.cat(chunks).numpy(), expected)


def test_it_is_standard_normal():
    drawn = row_normal(normal(1, 2), 0, samples=20_000)
    torch.testing.assert_close(drawn.mean(), torch.tensor(0.0).double(), atol=0.03, rtol=0)
    torch.testing.assert_close(drawn.std(), torch.tensor(1.0).double(), atol=0.03, rtol=0)
