"""Directions and finite differences of an explanation, against loops and closed forms."""

import inspect

import pytest
import torch

from r2et.explainers import Gradient, GradientTimesInput
from r2et.numerics.autograd import forward
from r2et.objectives import ExplainedBatch
from tests.models_with_answers import generator, mlp, naive_gradient, normal, quadratic


def batch_of(model, x, *, explainer=None, seed=0):
    point, logits = forward(model, x)
    explainer = Gradient(reduce="signed") if explainer is None else explainer
    return ExplainedBatch(model, point, logits, explainer=explainer, generator=generator(seed))


def test_what_changes_a_result_has_a_name():
    for method, by_position in {
        ExplainedBatch: ["model", "x", "logits"],
        ExplainedBatch.directions: ["self", "kind", "rows"],
        ExplainedBatch.difference_quotient: ["self", "kind"],
    }.items():
        parameters = inspect.signature(method).parameters.values()
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == by_position


@pytest.mark.parametrize("kind", ["gradient", "random", "adversarial"])
@pytest.mark.parametrize("rows", [1, 3])
def test_directions_are_of_length_one(kind, rows):
    drawn = batch_of(mlp(), normal(4, 6)).directions(kind, rows, size=0.1, scale_free=False)
    assert drawn.shape == (rows, 6)
    torch.testing.assert_close(drawn.norm(dim=1), torch.ones(rows).double())


def test_directions_along_the_gradient_whatever_is_explained():
    """An explainer that is not the gradient has that of the log-odds; either way it is the slope of the score."""
    model, x = mlp(), normal(4, 6)
    for explainer in (Gradient(), GradientTimesInput()):
        batch = batch_of(model, x, explainer=explainer)
        drawn = batch.directions("gradient", 4, size=0.1, scale_free=False)
        for row, c, direction in zip(x, batch.target.tolist(), drawn, strict=True):
            slope = naive_gradient(model, row.clone().requires_grad_(), c, "log-odds")
            torch.testing.assert_close(direction, slope / slope.norm(), atol=1e-10, rtol=0)


@pytest.mark.parametrize("size", [1e-3, 0.5])
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.01])
def test_the_difference_quotient_of_a_quadratic_is_exact(size, fraction):
    model, x = quadratic(), normal(4, 5, seed=2)
    rows = max(1, round(4 * fraction))
    v = torch.randn(rows, 5, generator=generator(7), dtype=torch.float64)
    expected = (v / v.norm(dim=1, keepdim=True) @ model.A.detach()).norm(dim=1)
    quotient = batch_of(model, x, seed=7).difference_quotient("random", size=size, fraction=fraction)
    torch.testing.assert_close(quotient.detach(), expected, rtol=1e-9, atol=0)


def test_the_scale_free_quotient_is_that_of_unit_explanations():
    model, x, size = mlp(), normal(3, 6), 0.1
    batch = batch_of(model, x, seed=7)
    v = torch.randn(3, 6, generator=generator(7), dtype=torch.float64)
    moved = x + size * v / v.norm(dim=1, keepdim=True)
    expected = []
    for row, far, c in zip(x, moved, batch.target.tolist(), strict=True):
        here, there = (naive_gradient(model, p.clone().requires_grad_(), c, "log-odds") for p in (row, far))
        expected.append(float((there / there.norm() - here / here.norm()).norm()) / size)
    quotient = batch.difference_quotient("random", size=size, scale_free=True)
    assert quotient.tolist() == pytest.approx(expected, rel=1e-9)
    plain = batch_of(model, x, seed=7).difference_quotient("random", size=size)
    assert plain.tolist() != pytest.approx(expected, rel=0.01)


def test_the_ranking_to_keep_is_detached_and_the_references_where_there_is_one():
    model, other, x = mlp(), mlp(seed=9), normal(3, 6)
    batch = batch_of(model, x)
    assert torch.equal(batch.ranking_to_keep(None), batch.scores.detach())
    kept = batch.ranking_to_keep(other)
    assert not kept.requires_grad
    for row, c, scores in zip(x, batch.target.tolist(), kept, strict=True):
        slope = naive_gradient(other, row.clone().requires_grad_(), c, "log-odds")
        torch.testing.assert_close(scores, slope, atol=1e-12, rtol=0)
