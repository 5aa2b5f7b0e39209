"""Affine functions of several sources, against the matrices written out."""

import pytest
import torch

from r2et.enclosure import affine
from r2et.enclosure.affine import Affine, Source
from r2et.errors import ModelError
from tests.models_with_answers import normal


def value(function, sources):
    """What the function is at given sources, each (size,)."""
    terms = (torch.tensordot(sources[number], matrix, dims=1) for number, matrix in function.terms.items())
    return sum(terms, start=function.bias[0])


@pytest.fixture
def sources():
    return {-1: normal(3, seed=1), 0: normal(2, seed=2)}


@pytest.fixture
def both():
    first = Affine({-1: normal(3, 4, seed=3)}, normal(1, 4, seed=4))
    return first, Affine({-1: normal(3, 4, seed=5), 0: normal(2, 4, seed=6)}, normal(1, 4, seed=7))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_sum_is_the_sum_of_values(both, sources, sign):
    first, second = both
    expected = value(first, sources) + sign * value(second, sources)
    torch.testing.assert_close(value(first.plus(second, sign), sources), expected)
    torch.testing.assert_close(value(second.plus(first, sign), sources) * sign, expected)


def test_a_map_is_the_map_of_the_value(both, sources):
    matrix, shift = normal(5, 4, seed=8), normal(5, seed=9)
    _, function = both
    mapped = function.mapped(lambda rows: rows @ matrix.T, shift)
    torch.testing.assert_close(value(mapped, sources), matrix @ value(function, sources) + shift)


def test_neither_changes_what_it_is_made_of(both):
    first, second = both
    before = {number: matrix.clone() for number, matrix in second.terms.items()}
    first.plus(second)
    second.plus(first)
    assert first.terms.keys() == {-1}
    assert all(torch.equal(matrix, before[number]) for number, matrix in second.terms.items())


def test_a_network_that_is_too_large_is_refused(both, monkeypatch):
    monkeypatch.setattr(affine, "LARGEST_MATRIX", 11)
    with pytest.raises(ModelError, match=r"too large for enclosures: a linear map has shape \(3, 4\)"):
        both[0].mapped(lambda rows: rows)


@pytest.mark.parametrize("width", [2, 9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_source_is_its_identity_after_maps_and_sums(monkeypatch, width, sign):
    matrix, other, shift = normal(width, 6, seed=1), normal(width, 6, seed=2), normal(width, seed=3)

    def built():
        source = Source(-1, torch.zeros(1, 2, 3).double())
        mapped = source.mapped(lambda rows: rows.flatten(1)).mapped(lambda rows: rows @ matrix.T, shift)
        return mapped.plus(source.mapped(lambda rows: rows.flatten(1) @ other.T), sign)

    written_out = built()
    assert not isinstance(written_out, Source)
    torch.testing.assert_close(written_out.terms[-1], (matrix + sign * other).T)
    monkeypatch.setattr(affine, "WHOLE_IDENTITY", 13)
    in_pieces = built()
    assert isinstance(in_pieces, Source)
    torch.testing.assert_close(in_pieces.terms[-1], written_out.terms[-1], rtol=1e-14, atol=1e-14)
    assert torch.equal(in_pieces.bias, written_out.bias)


def test_maps_that_are_trained_stay_connected(monkeypatch):
    monkeypatch.setattr(affine, "WHOLE_IDENTITY", 13)
    weight = normal(2, 6).requires_grad_()
    found = Source(0, torch.zeros(1, 6).double()).mapped(lambda rows: rows @ weight.T)
    found.terms[0].square().sum().backward()
    torch.testing.assert_close(weight.grad, 2 * weight.detach())


def test_a_source_is_refused_before_its_matrix_is_made(monkeypatch):
    monkeypatch.setattr(affine, "WHOLE_IDENTITY", 1)
    monkeypatch.setattr(affine, "LARGEST_MATRIX", 20)
    seen = []
    source = Source(-1, torch.zeros(1, 7).double()).mapped(lambda rows: (seen.append(len(rows)), rows)[1])
    with pytest.raises(ModelError, match=r"shape \(7, 7\).*smoothing"):
        source.terms[-1]
    assert seen == [1]
