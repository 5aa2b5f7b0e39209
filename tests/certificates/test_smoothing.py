"""The randomised certificate: its theorem by simulation, maps with a closed form, attacks on the map itself."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn

from r2et import ranking
from r2et.certificates import NoisyCounts, Smoothing, certify, noisy_counts, smoothed_scores
from r2et.errors import InputError, ModelError
from r2et.explainers import Gradient, SmoothGrad
from r2et.numerics.row_noise import row_normal_chunks
from tests.models_with_answers import Pair, Quadratic, convolution, generator, linear, mlp, normal

TRIALS = 2000


def counts_of(values: Tensor, samples: int, sigma: float = 1.0) -> NoisyCounts:
    tau = int(values[0].sum()) // samples
    return NoisyCounts(values, torch.zeros(len(values), dtype=torch.int64), samples, sigma, tau, "simulated", 0)


def simulated(samples: int, tau: int, means: Tensor, trials: int = TRIALS) -> tuple[Tensor, Tensor]:
    """Counts (trials, n) of independent experiments in which feature i scores means[i] + noise, and the true q."""
    source = generator(3)

    def members(size: int) -> Tensor:
        scores = means + torch.randn(size, len(means), generator=source, dtype=torch.float64)
        return ranking.top_k_mask(scores, tau)

    truth = members(1_000_000).double().mean(0)
    return torch.stack([members(samples).sum(0) for _ in range(trials)]), truth


def radii_of_truth(truth: Tensor, top: Tensor, sigma: float) -> Tensor:
    """limits (trials, k) that the theorem gives for each chosen set (trials, k) if q is known, spelled out."""
    rows = []
    for chosen in top.tolist():
        k = len(chosen)
        inside = sorted((float(truth[i]) for i in chosen), reverse=True)
        outside = sorted((float(truth[j]) for j in range(len(truth)) if j not in chosen), reverse=True)
        row = []
        for displaced in range(k):
            i = k - displaced
            if k - i + 1 > len(outside):
                row.append(math.inf)
            else:
                row.append(sigma / 2 * (stats.norm.ppf(inside[i - 1]) - stats.norm.ppf(outside[k - i])))
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.fixture(scope="module")
def experiment():
    # two features on each side of the border are nearly tied, so that a wrong set is often chosen
    means = torch.tensor([1.5, 0.7, 0.55, 0.5, 0.45, -0.5, -1.0], dtype=torch.float64)
    return simulated(100, 3, means)


def share_of_false_statements(counts: Tensor, truth: Tensor, alpha: float) -> float:
    certificate = counts_of(counts, 100).certificate(3, alpha=alpha)
    claimed, true = certificate.limits, radii_of_truth(truth, certificate.top, 1.0)
    return float((claimed > true.clamp_min(0)).any(1).double().mean())


def test_certified_statements_fail_no_more_often_than_alpha(experiment):
    counts, truth = experiment
    for alpha in (0.05, 0.3):
        certificate = counts_of(counts, 100).certificate(3, alpha=alpha)
        wrong = (certificate.details["lower"] > truth) | (truth > certificate.details["upper"])
        share = float(wrong.any(1).double().mean())
        tolerance = 3 * math.sqrt(alpha * (1 - alpha) / TRIALS)
        assert 0 < share <= alpha + tolerance
        assert share_of_false_statements(counts, truth, alpha) <= alpha + tolerance


def test_a_positive_radius_names_the_right_set(experiment):
    counts, truth = experiment
    certificate = counts_of(counts, 100).certificate(3, alpha=0.05)
    best = set(ranking.top_k(truth, 3).tolist())
    chosen_wrongly = torch.tensor([set(row) != best for row in certificate.top.tolist()])
    assert chosen_wrongly.double().mean() > 0.2
    assert (chosen_wrongly & (certificate.radius > 0)).double().mean() <= 0.05


def test_bounds_without_the_correction_would_be_seen(experiment):
    # the negative control: alpha a feature, not alpha / n, breaks the promise for the bounds together
    counts, truth = experiment
    alpha = 0.3
    certificate = counts_of(counts, 100).certificate(3, alpha=min(alpha * counts.shape[1], 0.999))
    wrong = (certificate.details["lower"] > truth) | (truth > certificate.details["upper"])
    assert wrong.any(1).double().mean() > alpha + 0.1


def test_the_rate_of_too_large_radii_is_that_of_the_bound():
    # two features: rho = sigma Phi^-1(q) exactly, so a radius is too large if and only if a bound failed
    q, samples, trials, alpha = 0.9, 400, 20_000, 0.2
    successes = torch.from_numpy(np.random.default_rng(0).binomial(samples, q, trials))
    counts = torch.stack([successes, samples - successes], dim=1)
    exact = stats.norm.ppf(q)
    tolerance = 3 * math.sqrt(0.05 * 0.95 / trials)
    too_large = (counts_of(counts, samples).certificate(1, alpha=alpha).radius > exact).double().mean()
    assert 0.02 < too_large <= alpha / 4 + tolerance
    # the negative control: three counts too optimistic, and the promise is broken
    optimistic = torch.stack([successes + 3, samples - successes - 3], dim=1).clamp(0, samples)
    assert (
        counts_of(optimistic, samples).certificate(1, alpha=alpha).radius > exact
    ).double().mean() > alpha / 4 + 0.02


# a map with a closed form: gradients a_i x_i + b_i with independent noise


def diagonal(a: Tensor, b: Tensor) -> Quadratic:
    return Quadratic(torch.diag(a), b, 100.0)


def exact_map(x: Tensor, a: Tensor, b: Tensor, tau: int, sigma: float, points: int = 1501) -> Tensor:
    """q (N, n) of |a_i x_i + b_i + sigma a_i z_i| by a one-dimensional integral a feature, differentiable in x.

    i is in the top tau if and only if fewer than tau of the others exceed it (a Poisson-binomial count).
    """
    mean, spread = a * x + b, sigma * a.abs()
    z = torch.linspace(-7, 7, points, dtype=torch.float64)
    weight = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    level = (mean[..., None] + spread[:, None] * z).abs()
    normal_cdf = torch.special.ndtr
    # above[n, i, p, j] = P(|g_j| > level of feature i at point p)
    mean_j, level_i = mean[:, None, None, :], level[..., None]
    above = 1 - (normal_cdf((level_i - mean_j) / spread) - normal_cdf((-level_i - mean_j) / spread))
    above = above * (1 - torch.eye(len(a), dtype=torch.float64))[:, None, :]
    exactly = [torch.ones_like(above[..., 0])] + [torch.zeros_like(above[..., 0]) for _ in range(tau - 1)]
    for j in range(len(a)):
        p = above[..., j]
        exactly = [exactly[c] * (1 - p) + (exactly[c - 1] * p if c else torch.zeros_like(p)) for c in range(tau)]
    return (sum(exactly) * weight).sum(-1)


@pytest.fixture(scope="module")
def closed_form():
    n, tau, sigma = 5, 2, 0.25
    a = 0.5 + normal(n, seed=1).abs()
    b = normal(n, seed=2)
    x = normal(30, n, seed=3)
    counts = noisy_counts(diagonal(a, b), x, tau, sigma=sigma, samples=20_000)
    return a, b, x, tau, sigma, counts


def test_frequencies_agree_with_the_integral(closed_form):
    a, b, x, tau, sigma, counts = closed_form
    q = exact_map(x, a, b, tau, sigma)
    torch.testing.assert_close(q.sum(1), torch.full((len(x),), float(tau), dtype=torch.float64), rtol=0, atol=1e-3)
    error = (smoothed_scores(counts) - q).abs() / (q * (1 - q) / counts.samples).clamp_min(1e-9).sqrt()
    assert error.max() < 5


def attacked_map(x: Tensor, radius: Tensor, top: Tensor, a: Tensor, b: Tensor, tau: int, sigma: float) -> Tensor:
    """Features displaced from `top` (N,) by the best of gradient attacks on q itself within the radius (N,)."""
    source = generator(5)
    mask = torch.zeros(len(x), len(a), dtype=torch.bool).scatter_(1, top, True)
    most = torch.zeros(len(x), dtype=torch.int64)
    for start in range(3):
        delta = torch.randn(x.shape, generator=source, dtype=torch.float64) * (0.01 if start == 0 else 1.0)
        delta = delta / delta.norm(dim=1, keepdim=True) * radius[:, None] * (0.1 if start == 0 else 1.0)
        for _ in range(20):
            delta = delta.detach().requires_grad_()
            q = exact_map(x + delta, a, b, tau, sigma, points=301)
            lost = (mask & ~ranking.top_k_mask(q.detach(), tau)).sum(1)
            most = torch.maximum(most, lost)
            gap = q.masked_fill(~mask, 2).amin(1) - q.masked_fill(mask, -1).amax(1)
            slope = torch.autograd.grad(gap.sum(), delta)[0]
            delta = delta - radius[:, None] * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)
            delta = delta * (radius / delta.norm(dim=1)).clamp_max(1.0)[:, None]
    return most


def test_no_attack_on_the_map_succeeds_inside_the_radius_and_most_do_at_four_times_it(closed_form):
    a, b, x, tau, sigma, counts = closed_form
    certificate = counts.certificate(tau)
    certified = certificate.radius > 0
    assert certified.sum() >= 24
    x, top = x[certified], certificate.top[certified]
    for displaced in range(tau):
        limit = certificate.limits[certified, displaced]
        assert (attacked_map(x, 0.99 * limit, top, a, b, tau, sigma) <= displaced).all()
    farther = attacked_map(x, 4 * certificate.radius[certified], top, a, b, tau, sigma)
    assert (farther > 0).double().mean() > 0.5


def test_two_signed_features_have_a_tight_certificate():
    # q_1 = Phi(gap / (sigma |a|)): the certificate with exact q is the true radius gap / |a|
    a, b = torch.tensor([1.0, -2.0], dtype=torch.float64), torch.tensor([0.5, 0.1], dtype=torch.float64)
    x = normal(20, 2, seed=4) * 0.3
    gradient = a * x + b
    exact = (gradient[:, 0] - gradient[:, 1]).abs() / a.norm()
    found = certify(diagonal(a, b), x, 1, method=Smoothing(sigma=0.3), explainer=Gradient(reduce="signed"))
    assert (found.radius <= exact).all()
    near = (exact > 0.1) & (exact < 0.9)
    assert near.sum() >= 8
    assert (found.radius > 0.85 * exact - 0.01)[near].all()


def test_a_relu_net_keeps_its_set_against_attacks_on_the_map():
    n, k, sigma = 5, 2, 0.3
    model = mlp(n, hidden=12, seed=2, activation=nn.ReLU)
    x = normal(10, n, seed=6)
    certificate = certify(model, x, k, method=Smoothing(sigma=sigma))
    assert (certificate.radius > 0.01).sum() >= 7
    target = model(x).argmax(1)
    moved_at_four = 0
    for row in range(len(x)):
        radius, top = float(certificate.radius[row]), certificate.top[row]
        if radius == 0:
            continue
        mask = torch.zeros(n, dtype=torch.bool).index_fill_(0, top, True)

        def estimate(points: Tensor, samples: int, label: Tensor = target[row]) -> NoisyCounts:
            return noisy_counts(model, points, k, sigma=sigma, samples=samples, target=label.expand(len(points)))

        # the slope of the gap of q by central differences, besides random directions
        step = 0.1 * torch.eye(n, dtype=torch.float64)
        q = smoothed_scores(estimate(torch.cat([x[row] + step, x[row] - step]), 4000))
        gap = q.masked_fill(~mask, 2).amin(1) - q.masked_fill(mask, -1).amax(1)
        worst = -(gap[:n] - gap[n:])
        directions = torch.cat([worst[None], normal(23, n, seed=row)])
        directions = directions / directions.norm(dim=1, keepdim=True)
        inside = estimate(x[row] + 0.99 * radius * directions, 20_000)
        assert (ranking.top_k_mask(inside.counts, k) == mask).all()
        outside = estimate(x[row] + 4 * radius * directions, 4000)
        moved_at_four += int((ranking.top_k_mask(outside.counts, k) != mask).any())
    assert moved_at_four >= 4


# the formula


def test_limits_are_the_formula_written_out():
    counts = torch.tensor([[50, 40, 6, 4, 0], [30, 30, 20, 10, 10]])
    certificate = counts_of(counts, 50).certificate(2, alpha=0.01)
    for row, values in enumerate(counts.tolist()):
        order = sorted(range(5), key=lambda i: (-values[i], i))
        tail = 0.01 / 10
        lower = [stats.beta.ppf(tail, c, 51 - c) if c else 0.0 for c in values]
        upper = [stats.beta.ppf(1 - tail, c + 1, 50 - c) if c < 50 else 1.0 for c in values]
        inside = sorted((lower[i] for i in order[:2]), reverse=True)
        outside = sorted((upper[j] for j in order[2:]), reverse=True)
        rho = [0.5 * (stats.norm.ppf(inside[i]) - stats.norm.ppf(outside[1 - i])) for i in range(2)]
        assert certificate.top[row].tolist() == order[:2]
        np.testing.assert_allclose(certificate.limits[row], [max(rho[1], 0), max(rho[0], 0)], rtol=1e-9)


def test_few_other_features_cannot_displace_many():
    # n = 3, k = 2: one newcomer at most, so one feature always stays, even one that was never seen on top
    certificate = counts_of(torch.tensor([[100, 0, 0]]), 100).certificate(2)
    assert certificate.limits.tolist() == [[0.0, math.inf]]
    assert certificate.precision_at(1e9).tolist() == [0.5]


def test_extreme_counts_give_numbers():
    certificate = counts_of(torch.tensor([[100, 100, 0, 0]]), 100).certificate(1)
    assert certificate.limits.tolist() == [[0.0]]
    assert counts_of(torch.tensor([[100, 0, 100, 0]]), 100).certificate(2).limits.isfinite().all()
    assert not counts_of(torch.tensor([[1, 1, 0, 0, 0]]), 1).certificate(4).limits.isnan().any()


@settings(max_examples=60, deadline=None)
@given(
    chances=st.lists(st.floats(-3, 3), min_size=3, max_size=8),
    tau=st.integers(1, 2),
    k=st.integers(1, 7),
    samples=st.integers(1, 300),
    alpha=st.floats(1e-6, 0.5),
)
def test_limits_rise_and_a_smaller_alpha_never_gives_a_larger_radius(chances, tau, k, samples, alpha):
    means = torch.tensor(chances, dtype=torch.float64)
    scores = means + torch.randn(samples, len(means), generator=generator(0), dtype=torch.float64)
    counts = counts_of(ranking.top_k_mask(scores, tau).sum(0)[None], samples)
    k = min(k, len(chances) - 1)
    loose, strict = counts.certificate(k, alpha=alpha), counts.certificate(k, alpha=alpha / 10)
    for found in (loose, strict):
        assert found.limits.shape == (1, k)
        assert (found.limits >= 0).all()
        assert (found.limits[:, 1:] >= found.limits[:, :-1]).all()
    assert (strict.limits <= loose.limits).all()


# the samples


def test_a_row_alone_is_the_row_in_a_batch_whatever_the_chunks():
    model, x = mlp(activation=nn.ReLU), normal(4, 6, seed=1)
    batch = noisy_counts(model, x, 2, samples=500)
    assert torch.equal(batch.counts, noisy_counts(model, x, 2, samples=500).counts)
    for row in range(4):
        assert torch.equal(
            batch.counts[row : row + 1], noisy_counts(model, x[row : row + 1], 2, samples=500).counts
        )
    for chunk in (1, 7, 499, 5000):
        assert torch.equal(batch.counts, noisy_counts(model, x, 2, samples=500, chunk_size=chunk).counts)
    assert torch.equal(batch.counts.flip(0), noisy_counts(model, x.flip(0), 2, samples=500).counts)
    assert not torch.equal(batch.counts, noisy_counts(model, x, 2, samples=500, seed=1).counts)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    noisy_counts(model, x, 2, samples=5)
    assert torch.equal(state, torch.get_rng_state())


def test_the_noise_is_standard_normal_and_not_shared_between_rows():
    rows = [torch.cat(list(row_normal_chunks(row, 20_000, chunk=999, seed=0))) for row in normal(2, 3, seed=1)]
    assert stats.kstest(rows[0].flatten().numpy(), "norm").pvalue > 1e-3
    together = torch.cat(rows, dim=1).T
    assert (torch.corrcoef(together) - torch.eye(6, dtype=torch.float64)).abs().max() < 0.04


def test_counts_agree_with_a_loop_over_noisy_copies():
    model, x = mlp(classes=3), normal(2, 6, seed=8)
    found = noisy_counts(model, x, 2, sigma=0.5, samples=40)
    assert torch.equal(found.target, model(x).argmax(1))
    for row in range(2):
        naive = torch.zeros(6, dtype=torch.int64)
        for z in torch.cat(list(row_normal_chunks(x[row], 40, chunk=40, seed=0))):
            scores = Gradient()(model, (x[row] + 0.5 * z)[None], found.target[row : row + 1])[0]
            for feature in sorted(range(6), key=lambda i: (-float(scores[i]), i))[:2]:
                naive[feature] += 1
        assert torch.equal(found.counts[row], naive)


def test_the_class_of_the_clean_input_is_explained_or_the_one_given():
    model, x = linear(4, classes=3), normal(3, 4)
    free, fixed = (
        noisy_counts(model, x, 1, samples=50),
        noisy_counts(model, x, 1, samples=50, target=torch.tensor([2] * 3)),
    )
    assert fixed.target.tolist() == [2, 2, 2]
    assert torch.equal(free.target, model(x).argmax(1))


def test_ties_go_to_the_smaller_index():
    model = nn.Linear(4, 2).double()
    nn.init.zeros_(model.weight)
    assert noisy_counts(model, torch.ones(1, 4, dtype=torch.float64), 2, samples=10).counts.tolist() == [
        [10, 10, 0, 0]
    ]


def test_k_and_alpha_change_without_the_model():
    calls = []
    model, x = mlp(), normal(3, 6)
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    counts = noisy_counts(model, x, 3, samples=1000)
    seen = len(calls)
    one, three = counts.certificate(1), counts.certificate()
    assert (one.k, three.k, len(calls)) == (1, 3, seen)
    assert (counts.certificate(alpha=0.5).limits >= three.limits).all()
    together = counts.certificate(simultaneous=True)
    assert (together.limits <= three.limits).all()
    assert torch.equal(together.limits, counts.certificate(alpha=0.001 / 3).limits)
    handle.remove()
    direct = certify(model, x, 1, method=Smoothing(samples=1000, tau=3))
    assert torch.equal(direct.limits, one.limits)
    assert torch.equal(direct.top, one.top)


def test_the_certificate_says_what_it_is_about():
    certificate = certify(mlp(), normal(2, 6), 2, method=Smoothing(samples=100, alpha=0.01, sigma=0.5))
    assert certificate.method == "smoothing"
    assert certificate.sound
    for part in ("top 2", "Gradient", "0.5", "log-odds"):
        assert part in certificate.explanation
    text = " ".join(certificate.assumptions)
    for part in ("0.99", "not for a batch", "without noise", "held fixed", "rounding"):
        assert part in text


def test_pairs_images_dtypes_and_other_explainers():
    pair = noisy_counts(Pair(normal(4, 4)), normal(2, 2, 4, seed=1), 2, samples=400, explainer=Gradient(inputs=2))
    assert pair.counts.shape == (2, 2, 4)
    both = pair.certificate()
    alone = [
        NoisyCounts(pair.counts[:, i], pair.target, 400, 0.25, 2, "", 0).certificate(alpha=0.001 / 2)
        for i in range(2)
    ]
    torch.testing.assert_close(both.limits, torch.minimum(alone[0].limits, alone[1].limits))
    assert both.top.shape == (2, 2, 2)
    images = noisy_counts(convolution(), normal(2, 2, 4, 4), 3, samples=20, explainer=Gradient(reduce="abs-sum"))
    assert images.features == 16
    single = noisy_counts(mlp().float(), normal(2, 6).float(), 2, samples=20)
    assert single.certificate().limits.dtype == torch.float64
    averaged = noisy_counts(mlp(), normal(2, 6), 2, samples=20, explainer=SmoothGrad(samples=3))
    assert "SmoothGrad" in averaged.certificate().explanation


def test_evaluation_mode_is_used_and_restored():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).double()
    x = normal(3, 4)
    first = noisy_counts(model, x, 2, samples=50)
    assert all(module.training for module in model.modules())
    assert torch.equal(first.counts, noisy_counts(model.eval(), x, 2, samples=50).counts)


def test_save_and_load(tmp_path):
    counts = noisy_counts(mlp(), normal(3, 6), 2, samples=100, seed=4)
    counts.save(tmp_path / "counts.of.today")
    again = NoisyCounts.load(tmp_path / "counts.of.today")
    assert repr(again) == repr(counts)
    assert torch.equal(again.counts, counts.counts)
    assert torch.equal(again.target, counts.target)
    assert torch.equal(again.certificate(1, alpha=0.1).limits, counts.certificate(1, alpha=0.1).limits)


def test_files_that_are_not_counts_are_refused(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        NoisyCounts.load(tmp_path / "nothing")
    text, pickled, other, wrong = (tmp_path / name for name in ("text", "pickled.npz", "other.npz", "wrong.npz"))
    text.write_text("hello")
    np.savez(pickled, counts=np.array([object()], dtype=object))
    np.savez(other, a=np.zeros(3))
    np.save(tmp_path / "array.npy", np.zeros(3))
    good = counts_of(torch.tensor([[5, 5]]), 10)
    good.save(wrong)
    with np.load(wrong) as file:
        values = dict(file)
    np.savez(wrong, **{**values, "counts": np.array([[5, 6]])})
    for path in (text, pickled, other, wrong, tmp_path / "array.npy"):
        with pytest.raises(InputError, match=path.name):
            NoisyCounts.load(path)


@pytest.mark.parametrize(
    ("arguments", "quoted"),
    [
        ({"tau": 6}, "k=6"),
        ({"tau": 0}, "tau=0"),
        ({"sigma": 0.0}, "sigma=0.0"),
        ({"sigma": float("nan")}, "sigma=nan"),
        ({"samples": 0}, "samples=0"),
        ({"samples": 1.5}, "samples=1.5"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"seed": 0.5}, "seed=0.5"),
        ({"target": torch.tensor([0, 2])}, "label 2"),
        ({"x": torch.zeros(2, 6, dtype=torch.int64)}, "int64"),
    ],
)
def test_bad_arguments_are_quoted(arguments, quoted):
    with pytest.raises(InputError, match=quoted):
        noisy_counts(**{"model": mlp(), "x": normal(2, 6), "tau": 2, "samples": 10, **arguments})


def test_bad_requests_to_counts_are_quoted():
    counts = counts_of(torch.tensor([[5, 5, 0]]), 10)
    for k in (0, 3, True):
        with pytest.raises(InputError, match=str(k)):
            counts.certificate(k)
    for alpha in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(InputError, match=str(alpha)):
            counts.certificate(1, alpha=alpha)
    with pytest.raises(InputError, match="float64"):
        counts_of(torch.tensor([[5.0, 5.0]], dtype=torch.float64), 10)
    with pytest.raises(InputError, match="add up"):
        NoisyCounts(torch.tensor([[5, 6]]), torch.tensor([0]), 10, 1.0, 1, "", 0)


def test_an_explanation_that_is_not_a_number_is_an_error():
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            value = x.sqrt().sum(1)
            return torch.stack([torch.zeros_like(value), value], dim=1)

    with pytest.raises(ModelError, match="NaN or infinite"):
        noisy_counts(Root(), torch.full((1, 3), 0.1, dtype=torch.float64), 1, sigma=1.0, samples=50)
    assert noisy_counts(Root(), torch.full((1, 3), 9.0, dtype=torch.float64), 1, samples=50).samples == 50


def test_a_progress_bar_when_asked_for(capsys):
    noisy_counts(mlp(), normal(1, 6), 2, samples=10)
    assert capsys.readouterr().err == ""
    noisy_counts(mlp(), normal(1, 6), 2, samples=10, progress=True)
    assert capsys.readouterr().out == ""
