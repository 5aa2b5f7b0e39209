"""Scores: the identity between probability and log-odds, and accuracy where a model is sure of itself."""

import math

import pytest
import torch
from torch import Tensor

from r2et import scores
from tests.models_with_answers import naive_log_odds, normal

CASES = [(2, 0), (2, 1), (3, 2), (7, 3)]


def gradient(values: Tensor, x: Tensor) -> Tensor:
    return torch.autograd.grad(values.sum(), x)[0]


@pytest.mark.parametrize(("classes", "target"), CASES)
def test_values_against_the_definitions(classes, target):
    logits = normal(5, classes) * 3
    chosen = torch.full((5,), target)
    for r in range(5):
        s = naive_log_odds(logits[r], target)
        p = logits[r].exp()[target] / logits[r].exp().sum()
        assert float(scores.log_odds(logits, chosen)[r]) == pytest.approx(float(s), abs=1e-12)
        assert float(scores.probability(logits, chosen)[r]) == pytest.approx(float(p), abs=1e-14)
        assert float(scores.probability_slope(logits, chosen)[r]) == pytest.approx(float(p * (1 - p)), abs=1e-14)
        assert scores.logit(logits, chosen)[r] == logits[r, target]


@pytest.mark.parametrize(("classes", "target"), CASES)
def test_gradient_of_the_probability_is_a_multiple_of_that_of_the_log_odds(classes, target):
    """F1: grad p = p (1 - p) grad s."""
    logits = (normal(6, classes, seed=2) * 2).requires_grad_()
    chosen = torch.full((6,), target)
    p = logits.softmax(1)[:, target].detach()
    of_p = gradient(scores.probability(logits, chosen), logits)
    of_s = gradient(scores.log_odds(logits, chosen), logits)
    torch.testing.assert_close(of_p, (p * (1 - p))[:, None] * of_s, atol=1e-14, rtol=1e-12)
    of_softmax = gradient(logits.softmax(1)[:, target], logits)
    torch.testing.assert_close(of_p, of_softmax, atol=1e-14, rtol=1e-10)
    torch.testing.assert_close(
        of_p, scores.probability_slope(logits, chosen)[:, None] * of_s, atol=1e-14, rtol=1e-12
    )


def test_rows_have_their_own_target():
    logits, target = normal(4, 3), torch.tensor([2, 0, 1, 2])
    for name in ("log-odds", "probability", "logit"):
        together = scores.score(name, logits, target)
        alone = torch.cat([scores.score(name, logits[r : r + 1], target[r : r + 1]) for r in range(4)])
        torch.testing.assert_close(together, alone, atol=1e-15, rtol=0)


@pytest.mark.parametrize("margin", [1e5, -1e5])
def test_float32_at_huge_margins(margin):
    logits = torch.tensor([[margin, 0.0, -1.0], [margin + 3, 3.0, 2.0]], dtype=torch.float32, requires_grad=True)
    target = torch.tensor([0, 0])
    s = scores.log_odds(logits, target)
    others = math.log(1 + math.exp(-1))
    expected = torch.tensor([margin - others, margin - others], dtype=torch.float64)
    torch.testing.assert_close(s.detach().double(), expected, rtol=1e-6, atol=0)
    first = torch.autograd.grad(s.sum(), logits, create_graph=True)[0]
    share = math.exp(-1) / (1 + math.exp(-1))
    torch.testing.assert_close(first[0].detach(), torch.tensor([1.0, share - 1, -share]), rtol=1e-5, atol=1e-6)
    second = gradient(first[:, 1], logits)
    assert torch.isfinite(second).all()
    assert float(second[0, 1]) == pytest.approx(-share * (1 - share), rel=1e-4)

    p = scores.probability(logits, target)
    assert p.detach().tolist() == [float(margin > 0)] * 2
    first = torch.autograd.grad(p.sum(), logits, create_graph=True)[0]
    assert torch.isfinite(first).all()
    assert torch.isfinite(gradient(first.sum(1), logits)).all()
    assert scores.probability_slope(logits, target).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("margin", [30.0, 80.0, -30.0, -80.0])
def test_probability_gradient_keeps_relative_accuracy_in_float32(margin):
    logits = torch.tensor([[margin, 0.0]], dtype=torch.float32, requires_grad=True)
    found = gradient(scores.probability(logits, torch.tensor([0])), logits)[0, 0]
    expected = math.exp(-abs(margin)) / (1 + math.exp(-abs(margin))) ** 2
    assert float(found) == pytest.approx(expected, rel=1e-5)
    slope = scores.probability_slope(logits.detach(), torch.tensor([0]))
    assert float(slope) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("margin", [30.0, 80.0])
def test_second_derivative_of_the_probability_keeps_relative_accuracy(margin):
    logits = torch.tensor([[margin, 0.0]], dtype=torch.float32, requires_grad=True)
    first = torch.autograd.grad(scores.probability(logits, torch.tensor([0])).sum(), logits, create_graph=True)[0]
    second = gradient(first[:, 0], logits)[0, 0]
    p, q = 1 / (1 + math.exp(-margin)), math.exp(-margin) / (1 + math.exp(-margin))
    assert float(second) == pytest.approx(p * q * (q - p), rel=1e-5)


@pytest.mark.parametrize("name", ["log-odds", "probability", "logit"])
@pytest.mark.parametrize(("classes", "target"), CASES)
def test_gradcheck(name, classes, target):
    logits = normal(3, classes, seed=4).requires_grad_()
    chosen = torch.full((3,), target)
    assert torch.autograd.gradcheck(lambda u: scores.score(name, u, chosen), logits)
    assert torch.autograd.gradgradcheck(lambda u: scores.score(name, u, chosen), logits)


def test_second_derivatives_against_finite_differences():
    logits, target, step = normal(4, 3, seed=5), torch.tensor([0, 1, 2, 1]), 1e-5
    direction, mix = normal(4, 3, seed=6), normal(4, 3, seed=7)
    for name in ("log-odds", "probability"):

        def slope(u, name=name):
            return gradient(scores.score(name, u, target), u)

        u = logits.clone().requires_grad_()
        first = torch.autograd.grad(scores.score(name, u, target).sum(), u, create_graph=True)[0]
        exact = (gradient(first * mix, u) * direction).sum()
        ahead, behind = (slope((logits + sign * step * direction).requires_grad_()) for sign in (1, -1))
        numeric = ((ahead - behind) * mix).sum() / (2 * step)
        assert float(exact) == pytest.approx(float(numeric), rel=1e-7)


def test_the_raw_logit_ranks_differently():
    """F1's last sentence: u_c is not equivalent to p_c."""
    weight = torch.tensor([[3.0, 1.0], [3.0, -1.0]], dtype=torch.float64)
    x = torch.zeros(1, 2, dtype=torch.float64, requires_grad=True)
    by = {
        name: gradient(scores.score(name, x @ weight.T, torch.tensor([0])), x)[0].abs().argmax().item()
        for name in ("log-odds", "probability", "logit")
    }
    assert by == {"log-odds": 1, "probability": 1, "logit": 0}


def test_predicted_class_is_detached_and_the_first_of_equals():
    logits = torch.tensor([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    assert scores.predicted_class(logits).tolist() == [1, 0]


def test_unknown_score_suggests_the_closest():
    with pytest.raises(ValueError, match=r"'log_odds'.*'log-odds'"):
        scores.check_score("log_odds")
