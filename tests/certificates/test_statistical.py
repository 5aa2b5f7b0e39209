"""The quantities of Theorem 5.2 against loops over pairs and draws, closed forms, and coverage by simulation."""

import math

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import r2et
from r2et.certificates.statistical import _exceedance, clopper_pearson, empirical_bernstein, statistical_stability
from r2et.errors import InputError, ModelError
from r2et.explainers import Gradient
from r2et.stability import AdversarialNeighbours, GaussianNeighbours, UniformNeighbours
from tests.models_with_answers import Pair, Quadratic, generator, linear, mlp, naive_gradient, naive_pairs, normal


def phi(z: float, u: float) -> float:
    """The surrogate loss of A.5, as it is printed."""
    if z < 0:
        return 1.0
    return 1 - z / u if z < u else 0.0


def naive_risks(
    model: nn.Module, x: Tensor, k: int, u: float, draws: Tensor, score: str
) -> list[list[list[float]]]:
    """[risk, surrogate, margin risk, gap][draw][input], by a double loop over pairs."""
    table: list[list[list[float]]] = [[], [], [], []]
    for points in draws:
        rows: list[list[float]] = [[], [], [], []]
        for clean, point in zip(x, points, strict=True):
            c = int(model(clean[None])[0].argmax())
            before = naive_gradient(model, clean, c, score).abs().tolist()
            now = naive_gradient(model, point, c, score).abs().tolist()
            pairs = naive_pairs(before, k)
            rows[0].append(sum(now[i] < now[j] for i, j in pairs) / len(pairs))
            rows[1].append(sum(phi(now[i] - now[j], u) for i, j in pairs) / len(pairs))
            rows[2].append(sum(now[i] < now[j] + u for i, j in pairs) / len(pairs))
            rows[3].append(sum(now[i] - now[j] for i, j in pairs) / len(pairs))
        for all_rows, row in zip(table, rows, strict=True):
            all_rows.append(row)
    return table


@pytest.mark.parametrize("score", ["log-odds", "probability"])
@pytest.mark.parametrize(("k", "u"), [(1, 0.3), (2, 0.05), (4, 1e-3)])
def test_risks_agree_with_loops_over_pairs(score, k, u):
    model, x = mlp(6, classes=3, seed=1), normal(3, 6, seed=2)
    neighbours = GaussianNeighbours(1.0)
    found = statistical_stability(
        model, x, k, u, explainer=Gradient(score=score), neighbours=neighbours, samples=20, generator=generator(7)
    )
    draws = neighbours.draw(model, x, 20, generator(7))
    naive = torch.tensor(naive_risks(model, x, k, u, draws, score), dtype=torch.float64)
    assert 0 < naive[0].mean() < 0.6
    torch.testing.assert_close(found.empirical, naive[2])
    for estimate, values in zip((found.risk, found.surrogate, found.margin_risk), naive, strict=False):
        torch.testing.assert_close(estimate.value, values.mean(0))
    torch.testing.assert_close(found.gap, naive[3].mean(0))
    half = naive[0, :10].mean(0)
    torch.testing.assert_close(found.exceedance.value, (half >= naive[2, 10:] + 0.1).double().mean(0))


def test_the_risks_are_in_order_and_grow_with_the_margin():
    model, x = mlp(8, seed=3), normal(5, 8, seed=4)
    last = None
    for u in (1e-6, 0.01, 0.1, 10.0):
        found = statistical_stability(model, x, 3, u, samples=50, generator=generator(0))
        assert (found.risk.value <= found.surrogate.value).all()
        assert (found.surrogate.value <= found.margin_risk.value).all()
        if last is not None:
            assert torch.equal(found.risk.value, last.risk.value)
            assert (found.surrogate.value >= last.surrogate.value).all()
            assert (found.margin_risk.value >= last.margin_risk.value).all()
        for estimate in (found.risk, found.surrogate, found.margin_risk, found.exceedance):
            assert (estimate.lower <= estimate.value).all()
            assert (estimate.value <= estimate.upper).all()
            assert (estimate.lower >= 0).all()
            assert (estimate.upper <= 1).all()
        last = found
    assert (last.margin_risk.value == 1).all()


def test_a_linear_model_has_no_risk_below_its_gap():
    model, x = linear(5), normal(2, 5)
    weights = sorted((model.weight[1] - model.weight[0]).abs().tolist(), reverse=True)
    gap = weights[1] - weights[2]
    below, above = (
        statistical_stability(model, x, 2, u, explainer=Gradient(), samples=20) for u in (0.99 * gap, 1.01 * gap)
    )
    assert (below.margin_risk.value == 0).all()
    torch.testing.assert_close(above.margin_risk.value, torch.full((2,), 1 / 6, dtype=torch.float64))
    assert (above.exceedance.value == 0).all()


def test_a_tie_is_no_error_and_a_gap_of_the_margin_is_wide_enough():
    model = nn.Linear(3, 2, bias=False).double()
    model.weight.data = torch.tensor([[0.0, 0.0, 0.0], [3.0, 3.0, 1.0]], dtype=torch.float64)
    found = statistical_stability(model, normal(1, 3), 1, 2.0, explainer=Gradient(), samples=4)
    assert (float(found.risk.value), float(found.margin_risk.value), float(found.surrogate.value)) == (0, 0.5, 0.5)


def test_the_left_side_is_counted_against_the_ends_of_the_interval_of_the_true_risk():
    source = generator(4)
    risk, margin_risk = (torch.rand(400, 3, generator=source, dtype=torch.float64) * scale for scale in (0.6, 0.4))
    found = _exceedance(risk, margin_risk, 0.1, 0.2)
    true = empirical_bernstein(risk[:200], 0.1)
    for row in range(3):
        seen = [sum(float(level[row]) >= float(r) + 0.1 for r in margin_risk[200:, row]) for level in true]
        assert seen[1] < seen[0] < seen[2]
        ends = [
            clopper_pearson(torch.tensor(seen[1]), 200, 0.05)[0],
            clopper_pearson(torch.tensor(seen[2]), 200, 0.05)[1],
        ]
        assert [found.lower[row], found.upper[row]] == ends
        assert float(found.value[row]) == seen[0] / 200


def signed_pair() -> tuple[nn.Module, Tensor, float]:
    """Two features whose signed gap at x + sigma z is normal: (model, x, gap / (sigma |a|))."""
    a, b = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([0.6, 0.1], dtype=torch.float64)
    x = torch.zeros(1, 2, dtype=torch.float64)
    return Quadratic(torch.diag(a), b, 50.0), x, 0.5 / (0.25 * math.sqrt(5))


def test_risks_of_a_quadratic_score_are_normal_probabilities():
    model, x, z = signed_pair()
    settings = {"explainer": Gradient(reduce="signed"), "neighbours": GaussianNeighbours(0.25)}
    found = statistical_stability(model, x, 1, 0.2, **settings, samples=20_000, generator=generator(1))
    spread = 0.25 * math.sqrt(5)
    truth = {"risk": stats.norm.cdf(-z), "margin_risk": stats.norm.cdf((0.2 - 0.5) / spread)}
    for name, value in truth.items():
        estimate = getattr(found, name)
        assert float(estimate.lower) <= value <= float(estimate.upper)
        assert float(estimate.value) == pytest.approx(value, abs=0.015)
    # one pair: the left side is the chance of no error within the margin, as the true risk is above 0.1
    assert float(found.exceedance.value) == pytest.approx(1 - truth["margin_risk"], abs=0.015)


def test_intervals_cover_and_would_not_without_their_width():
    model, x, z = signed_pair()
    settings = {"explainer": Gradient(reduce="signed"), "neighbours": GaussianNeighbours(0.25)}
    repeats, alpha = 400, 0.2
    # independent inputs at the same place are independent experiments
    found = statistical_stability(
        model, x.expand(repeats, 2), 1, 0.2, **settings, samples=1000, alpha=alpha, generator=generator(2)
    )
    spread = 0.25 * math.sqrt(5)
    margin_risk = stats.norm.cdf((0.2 - 0.5) / spread)
    truth = [
        (found.risk, stats.norm.cdf(-z)),
        (found.margin_risk, margin_risk),
        (found.exceedance, 1 - margin_risk),
    ]
    for estimate, value in truth:
        missed = (estimate.lower > value) | (estimate.upper < value)
        assert missed.double().mean() <= alpha
        # the negative control: a tenth of the width misses most of the time
        centre, width = estimate.value, (estimate.upper - estimate.lower) / 2
        assert ((centre - value).abs() > width / 10).double().mean() > 0.5


def test_intervals_agree_with_their_formulas():
    values = torch.rand(50, 2, generator=generator(0), dtype=torch.float64)
    found = empirical_bernstein(values, 0.1)
    for column in range(2):
        row = values[:, column].tolist()
        mean = sum(row) / 50
        variance = sum((a - b) ** 2 for a in row for b in row) / (2 * 50 * 49)
        width = math.sqrt(2 * variance * math.log(40) / 50) + 7 * math.log(40) / (3 * 49)
        assert float(found.upper[column]) == pytest.approx(min(mean + width, 1))
        assert float(found.lower[column]) == pytest.approx(max(mean - width, 0))
    lower, upper = clopper_pearson(torch.arange(21), 20, 0.01)
    for count in range(21):
        # at the bound, a count as far out as this one has probability 1 %
        if count:
            assert stats.binom.sf(count - 1, 20, float(lower[count])) == pytest.approx(0.01)
        if count < 20:
            assert stats.binom.cdf(count, 20, float(upper[count])) == pytest.approx(0.01)
    assert (float(lower[0]), float(upper[20])) == (0.0, 1.0)
    rare = clopper_pearson(torch.tensor([0, 7, 20_000]), 20_000, 1e-9)
    assert stats.binom.cdf(7, 20_000, float(rare[1][1])) == pytest.approx(1e-9, rel=1e-6)
    assert float(rare[0][2]) == pytest.approx(1e-9 ** (1 / 20_000))


def test_the_bound_is_the_appendix_one_and_says_when_it_is_vacuous():
    model, x = mlp(6), normal(2, 6)

    def found(**settings):
        return statistical_stability(model, x, 2, 0.4, samples=8, **settings)

    worst = found(epsilon=0.1)
    assert (worst.pairs, worst.chromatic, worst.covering) == (8, 8, 1)
    assert worst.bound == pytest.approx(2 * math.exp(-0.02))
    assert worst.vacuous
    assert "vacuous" in worst.summary()
    # chi = m: informative only for eps above sqrt(ln 2 / 2)
    border = math.sqrt(math.log(2) / 2)
    assert found(epsilon=border * 0.999).vacuous
    assert not found(epsilon=border * 1.001).vacuous
    independent = found(epsilon=0.5, chromatic=1, covering=3.0)
    assert independent.bound == pytest.approx(2 * 3 * math.exp(-2 * 8 * 0.25))
    assert independent.derived_bound == pytest.approx(2 * 3 * math.exp(-8 * 0.25 / 2))
    assert not independent.vacuous
    assert "vacuous" not in independent.summary()
    radii = []

    def covering(radius: float) -> float:
        radii.append(radius)
        return 1 / radius

    assert found(epsilon=0.5, covering=covering).covering == pytest.approx(40)
    assert radii == [pytest.approx(0.5 * 0.4 / 8)]


def test_the_sampled_left_side_is_below_the_bound_of_one_fixed_map():
    model, x = mlp(8, seed=5, hidden=16), normal(6, 8, seed=6)
    for u in (1e-3, 0.1):
        found = statistical_stability(
            model, x, 3, u, epsilon=0.65, neighbours=GaussianNeighbours(1.0), samples=400, generator=generator(0)
        )
        assert not found.vacuous
        assert (found.exceedance.lower <= found.bound).all()


def test_pairs_of_inputs_are_averaged():
    model, x = Pair(normal(4, 4)), normal(3, 2, 4, seed=1)
    found = statistical_stability(
        model, x, 2, 0.1, explainer=Gradient(inputs=2), neighbours=UniformNeighbours(2.0), samples=6,
        generator=generator(3),
    )  # fmt: skip
    assert found.pairs == 8
    draws = UniformNeighbours(2.0).draw(model, x, 6, generator(3))
    sign = [0.0, 0.0, 0.0]
    for draw in draws:
        for row in range(3):
            now, before = model.gradient(draw).abs(), model.gradient(x).abs()
            for side in range(2):
                for i, j in naive_pairs(before[row, side].tolist(), 2):
                    sign[row] += float(now[row, side, i] < now[row, side, j]) / (8 * 6)
    torch.testing.assert_close(found.risk.value, torch.tensor(sign, dtype=torch.float64))


def test_chunks_and_seeds_do_not_matter_and_training_mode_is_restored():
    model = nn.Sequential(nn.Linear(5, 6), nn.Softplus(), nn.Dropout(0.5), nn.Linear(6, 2)).double()
    x = normal(3, 5)
    results = [
        statistical_stability(model, x, 2, 0.1, samples=9, generator=generator(1), chunk_size=chunk)
        for chunk in (None, 1, 4)
    ]
    assert model.training
    for other in results[1:]:
        torch.testing.assert_close(other.empirical, results[0].empirical)
        torch.testing.assert_close(other.gap, results[0].gap)


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        ({"k": 6}, "k=6"),
        ({"margin": 0.0}, "margin=0.0"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"samples": 3}, "samples=3"),
        ({"alpha": 1.0}, "alpha=1.0"),
        ({"chromatic": 0.5}, "chromatic=0.5"),
        ({"chromatic": 9}, "chromatic=9"),
        ({"covering": 0.5}, "covering=0.5"),
        ({"covering": lambda r: math.inf}, "covering=inf"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"neighbours": AdversarialNeighbours(r2et.attacks.ERAttack(k=1, radius=0.1))}, "random draws"),
    ],
)
def test_bad_arguments_are_quoted(arguments, quoted):
    with pytest.raises(InputError, match=quoted):
        statistical_stability(
            **{"model": mlp(6), "x": normal(2, 6), "k": 2, "margin": 0.1, "samples": 8, **arguments}
        )


def test_an_explanation_that_is_not_a_number_is_an_error():
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            value = x.sqrt().sum(1)
            return torch.stack([torch.zeros_like(value), value], dim=1)

    x = torch.full((1, 3), 0.1, dtype=torch.float64)
    with pytest.raises(ModelError, match="NaN or infinite"):
        statistical_stability(Root(), x, 1, 0.1, neighbours=GaussianNeighbours(1.0))
