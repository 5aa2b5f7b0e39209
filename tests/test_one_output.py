"""Models with one output predict a number: explained, attacked, certified, trained; forgotten classes are said."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import r2et
from r2et import metrics, models, ranking, scores
from r2et.attacks import ATTACKS, WorstCase
from r2et.auditing import Outcome
from r2et.errors import InputError, ModelError
from r2et.estimator.sides import two_sided
from r2et.explainers import Background, ColumnEffects, Contributions, Gradient, IntegratedGradients, SmoothGrad
from r2et.objectives import R2ET, CrossEntropy
from r2et.training import Settings

N, FEATURES = 12, 5


def network(seed: int = 0, activation: type[nn.Module] = nn.Tanh, outputs: int = 1) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, 16), activation(), nn.Linear(16, outputs)).double()


def rows(count: int = N) -> torch.Tensor:
    return torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def as_two_classes(model: nn.Sequential) -> nn.Sequential:
    """The logits (0, s) of the output s: its log-odds of class 1 are the output."""
    pair = nn.Linear(16, 2).double()
    pair.weight.data = torch.cat([torch.zeros(1, 16), model[2].weight.data])
    pair.bias.data = torch.cat([torch.zeros(1), model[2].bias.data])
    return nn.Sequential(model[0], model[1], pair)


class Quadratic(nn.Module):
    """s(x) = x A x / 2, whose gradient is A x."""

    def __init__(self) -> None:
        super().__init__()
        root = torch.arange(25.0, dtype=torch.float64).reshape(5, 5) % 7
        self.a = nn.Parameter(root + root.T)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * (x @ self.a)).sum(1, keepdim=True) / 2


# --- what is explained ----------------------------------------------------------------------------------------


def test_the_gradient_of_a_quadratic_is_its_closed_form():
    model, x = Quadratic(), rows()
    assert torch.allclose(Gradient(reduce="signed")(model, x), (x @ model.a).detach())


@pytest.mark.parametrize("score", ["log-odds", "probability", "logit", "margin", "output"])
@pytest.mark.parametrize("kind", [Gradient, SmoothGrad, IntegratedGradients])
def test_whatever_the_score_is_called_the_output_is_explained(kind, score):
    model, x = network(), rows()
    assert torch.equal(kind(score=score)(model, x), kind(score="output")(model, x))


def test_column_effects_and_contributions_are_those_of_the_log_odds_with_the_same_values():
    model, x = network(), rows()
    columns = r2et.Columns(tuple("abcde"), tuple((i,) for i in range(5)), ("number",) * 5, ((),) * 5)
    target = torch.ones(N, dtype=torch.int64)
    background = Background.from_rows(x, columns, size=4)
    for explainer in (
        ColumnEffects(columns=columns, reduce="signed"),
        Contributions(columns=columns, background=background),
    ):
        same = explainer(as_two_classes(model), x, target)
        assert torch.allclose(explainer(model, x), same, atol=1e-9)


def test_contributions_add_up_to_the_difference_of_outputs():
    model, x = network(), rows()
    columns = r2et.Columns(tuple("abcde"), tuple((i,) for i in range(5)), ("number",) * 5, ((),) * 5)
    background = Background.from_rows(x, columns, size=4)
    shares = Contributions(columns=columns, background=background)(model, x)
    expected = model(x).squeeze(1) - model(background.tensor).mean()
    assert torch.allclose(shares.sum(1), expected.detach())


def test_the_score_output_of_several_classes_is_refused():
    with pytest.raises(InputError, match='score="output" is that of a model with one output'):
        Gradient(score="output")(network(outputs=2), rows())


@given(
    st.lists(st.floats(-5, 5), min_size=1, max_size=6),
    st.lists(st.floats(-5, 5), min_size=6, max_size=6),
    st.floats(0.01, 3),
)
def test_a_prediction_is_kept_where_slack_is_left(clean, moved, tolerance):
    now, was = (torch.tensor(v[: len(clean)], dtype=torch.float64).unsqueeze(1) for v in (moved, clean))
    kept = scores.same_prediction(now, was, tolerance)
    assert kept.tolist() == [abs(a - b) <= tolerance for a, b in zip(moved, clean, strict=False)]
    left = scores.slack(now, was, torch.zeros(len(clean), dtype=torch.int64), tolerance)
    sure = left.abs() > 1e-9
    assert torch.equal((left > 0)[sure], kept[sure])


# --- attacks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ATTACKS.names()))
@pytest.mark.parametrize("tolerance", [0.02, None])
def test_every_attack_keeps_the_output_within_the_tolerance(name, tolerance):
    model, x = network(), rows(6)
    options = {} if name == "worst-case" else {"steps": 20}
    attack = ATTACKS.create(name, k=2, radius=1.0, tolerance=tolerance, **options)
    result = attack(model, x)
    moved = (model(result.x) - model(x)).abs().squeeze(1)
    allowed = scores.TOLERANCE if tolerance is None else tolerance
    assert torch.equal(result.kept, moved <= allowed)
    assert bool(result.kept.all())
    assert bool((result.distance <= 1 + 1e-6).all())


def test_an_attack_that_may_change_the_prediction_reports_who_was_not_kept():
    model, x = network(), rows(40)
    with torch.no_grad():
        model[2].weight *= 10
    result = ATTACKS.create("er", k=2, radius=2.0, steps=30, keep="last", tolerance=0.05)(model, x)
    moved = (model(result.x) - model(x)).abs().squeeze(1)
    assert torch.equal(result.kept, moved <= 0.05)
    assert 0 < metrics.sensitivity(result) <= 1


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.Softplus])
def test_the_worst_case_finds_what_brute_force_in_two_dimensions_finds(activation):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 8), activation(), nn.Linear(8, 1)).double()
    x, radius, tolerance = torch.randn(20, 2).double(), 0.8, 0.05
    worst = WorstCase(k=1, radius=radius, tolerance=tolerance)(model, x)
    angle, length = torch.meshgrid(torch.linspace(0, 6.2832, 181), torch.linspace(0, radius, 61), indexing="ij")
    moves = torch.stack([length * angle.cos(), length * angle.sin()], -1).reshape(-1, 2).double()
    for row in range(len(x)):
        points = x[row] + moves
        kept = (model(points) - model(x[row : row + 1])).abs().squeeze(1) <= tolerance
        tops = Gradient()(model, points).argmax(1)
        if bool((kept & (tops != tops[0])).any()):
            assert worst.precision[row] == 0, row
    assert bool((worst.precision == 1).any())


def test_searches_by_formulas_find_what_searches_by_automatic_derivatives_find():
    model, x = network(), rows(30)

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, z):
            return self.inner(z + 0 * z.prod(1, keepdim=True))  # a network that cannot be read

    ours = WorstCase(k=2, radius=0.7, tolerance=0.05, budget="fast")
    read, unread = ours(model, x), ours(Hidden(), x)
    assert abs(float(read.precision.mean() - unread.precision.mean())) <= 0.07
    assert float(read.precision.mean()) < 0.9


# --- certificates ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU, nn.Softplus])
def test_a_certificate_is_that_of_the_same_score_of_two_classes(activation):
    model, x = network(activation=activation), rows()
    alike = r2et.certify(as_two_classes(model), x, 2, target=torch.ones(N, dtype=torch.int64))
    certificate = r2et.certify(model, x, 2)
    assert torch.allclose(certificate.radius, alike.radius, rtol=1e-3)
    assert "output" in certificate.explanation
    result = WorstCase(k=2, radius=2.0, keep="any")(model, x)
    flipped = result.precision < 1
    assert bool(flipped.any())
    assert bool((result.distance[flipped] >= certificate.radius[flipped]).all())
    nearer = ATTACKS.create("minimal", k=2, radius=4.0, keep="any")(model, x)
    found = nearer.precision < 1
    assert float((certificate.radius / nearer.distance)[found].median()) > 0.3  # and it is not trivial


def test_a_linear_regressor_cannot_be_moved():
    assert bool((r2et.certify(nn.Linear(FEATURES, 1).double(), rows(), 2).radius == torch.inf).all())


@pytest.mark.parametrize("tolerance", [0.01, 0.3])
def test_the_prediction_stays_within_the_tolerance_inside_the_certified_radius(tolerance):
    model, x = network(), rows()
    certificate = r2et.certify(model, x, 2, prediction=True, tolerance=tolerance)
    radius = certificate.details["prediction"]
    steepest = torch.zeros(N, dtype=torch.float64)
    for seed in range(400):
        way = torch.randn(N, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        point = x + radius[:, None] * way / way.norm(dim=1, keepdim=True)
        steepest = torch.maximum(steepest, (model(point) - model(x)).abs().squeeze(1).detach())
    slope = Gradient(reduce="signed")(model, x)
    way = slope / slope.norm(dim=1, keepdim=True)
    for sign in (1, -1):
        steepest = torch.maximum(
            steepest, (model(x + sign * radius[:, None] * way) - model(x)).abs().squeeze(1).detach()
        )
    assert bool((steepest <= tolerance).all())
    assert float((steepest / tolerance).median()) > 0.5  # and half as far again it would not hold


def test_the_radius_of_the_prediction_of_a_linear_model_is_its_closed_form():
    model, x = nn.Linear(FEATURES, 1).double(), rows()
    radius = r2et.certify(model, x, 2, prediction=True, tolerance=0.2).details["prediction"]
    assert torch.allclose(radius, torch.full_like(radius, 0.2 / float(model.weight.detach().norm())), rtol=1e-3)


def test_a_bracket_and_thickness():
    model, x = network(), rows()
    both = r2et.bracket(model, x, 2, radii=[0.1, 0.5])
    assert bool((both.proven <= both.attacked + 1e-12).all())
    assert 0 <= float(r2et.thickness(model, x, 2).mean()) <= 1


# --- training -------------------------------------------------------------------------------------------------


def test_the_loss_is_the_mean_squared_error():
    model, x = network(), rows()
    y = torch.linspace(-1, 1, N, dtype=torch.float64)
    squares = (model(x).squeeze(1) - y).square()
    assert torch.allclose(CrossEntropy()(model, x, y), squares.mean())
    weights = torch.rand(N, dtype=torch.float64)
    assert torch.allclose(CrossEntropy()(model, x, y, weights=weights), (weights * squares).mean())


def test_the_regulariser_of_a_number_is_free_of_its_scale():
    model, x = network(), rows()
    y = torch.zeros(N, dtype=torch.float64) + 0.5
    larger = network()
    with torch.no_grad():
        larger[2].weight *= 7
        larger[2].bias *= 7
    gaps = [
        R2ET(k=2, scale_free=True).evaluate(one, x, y, step=0, generator=torch.Generator().manual_seed(0)).parts
        for one in (model, larger)
    ]
    assert gaps[0].keys() == gaps[1].keys()
    assert torch.allclose(gaps[0]["gap"], gaps[1]["gap"], rtol=1e-6)


def test_fit_learns_a_line_and_selects_by_r2():
    torch.manual_seed(0)
    x = torch.randn(200, 3)
    y = x @ torch.tensor([1.0, -2.0, 0.5])
    model = nn.Linear(3, 1)
    result = r2et.fit(model, (x[:150], y[:150]), (x[150:], y[150:]), settings=Settings(epochs=60, lr=0.1))
    assert result.auc > 0.999
    assert "validation r2" in result.history.columns
    assert result.auc == pytest.approx(metrics.r2(model, x[150:], y[150:]), rel=1e-5)


# --- figures --------------------------------------------------------------------------------------------------


def test_r2_and_mae_are_those_of_scikit_learn():
    from sklearn.metrics import mean_absolute_error, r2_score

    model, x = network(), rows(50)
    y = model(x).squeeze(1).detach() + torch.randn(50, dtype=torch.float64)
    told, said = y.numpy(), model(x).squeeze(1).detach().numpy()
    assert metrics.r2(model, x, y) == pytest.approx(r2_score(told, said))
    assert metrics.mae(model, x, y) == pytest.approx(mean_absolute_error(told, said))
    with pytest.raises(InputError, match=r"all 50 are 1\.0"):
        metrics.r2(model, x, torch.ones(50, dtype=torch.float64))


def test_faithfulness_counts_the_output_and_its_tolerance():
    model, x = nn.Linear(3, 1, bias=False), torch.tensor([[1.0, 1.0, 1.0]])
    model.weight.data = torch.tensor([[0.05, 0.5, 0.2]])
    # without feature 1 the output is .5 lower, without 2 too .7, without all .75
    assert metrics.comprehensiveness(model, x).item() == pytest.approx((0.5 + 0.7 + 0.75) / 3)
    assert [metrics.dffot(model, x, tolerance=t).item() for t in (0.4, 0.6, 0.72, 0.8)] == pytest.approx(
        [1 / 3, 2 / 3, 1, 1]
    )


# --- audits ---------------------------------------------------------------------------------------------------


def test_an_audit_takes_its_tolerance_from_the_numbers_or_from_the_outcome():
    model, x = network(), rows(20)
    y = 100 * model(x).squeeze(1).detach() + torch.randn(20, dtype=torch.float64)
    plain = r2et.audit(model, x, y, k=2, radii=(0.5,), budget="fast", steps=3, certificate=False)
    assert plain.settings.tolerance == pytest.approx(0.1 * float(y.std(correction=0)))
    known = Outcome("price", mean=0.0, scale=100.0, tolerance=2.0)
    report = r2et.audit(
        model, x, y / 100, k=2, radii=(0.5,), budget="fast", steps=3, certificate=False, outcome=known
    )
    assert report.settings.tolerance == 2.0
    assert "(price)" in report.summary()
    assert report.mae == pytest.approx(100 * metrics.mae(model, x, y / 100))
    frame = np.asarray(y)
    assert r2et.audit(model, x, frame, k=2, radii=(0.5,), budget="fast", steps=3, certificate=False).r2 == plain.r2


def test_several_outputs_have_no_outcome():
    y = torch.tensor([0, 1] * 6)
    with pytest.raises(InputError, match="outcome is for a model with one output"):
        r2et.audit(network(outputs=2), rows(), y, k=2, radii=(0.5,), budget="fast", outcome=Outcome("price"))
    with pytest.raises(InputError, match="leave out class_names"):
        r2et.audit(network(), rows(), rows()[:, 0], k=2, radii=(0.5,), budget="fast", class_names=["a", "b"])


# --- a class that was meant -----------------------------------------------------------------------------------

CLASSES = torch.tensor([0, 1] * 6)


@pytest.mark.parametrize("y", [CLASSES, CLASSES.double(), CLASSES.numpy(), CLASSES.numpy() == 1])
def test_zeros_and_ones_for_one_output_are_two_classes(y):
    with pytest.raises(ModelError, match=r"regression.*0 and 1 alone.*torch\.cat"):
        r2et.audit(network(), rows(), y, k=2, radii=(0.5,), budget="fast")


def test_class_numbers_cannot_be_trained_on_with_one_output():
    part = (rows(), torch.arange(12) % 3)
    with pytest.raises(ModelError, match=r"regression.*y\.float\(\).*torch\.cat"):
        r2et.fit(network(), part, part, settings=Settings(epochs=1))
    with pytest.raises(ModelError, match=r"an AUC is of classes.*torch\.cat"):
        metrics.auc(network(), *part)


def test_numbers_for_classes_and_numbers_that_are_none():
    x = rows()
    with pytest.raises(InputError, match=r"2 outputs.*int64"):
        r2et.audit(network(outputs=2), x, x[:, 0], k=2, radii=(0.5,), budget="fast")
    with pytest.raises(InputError, match="NaN or infinite, first nan in row 0"):
        r2et.audit(network(), x, x[:, 0] * torch.nan, k=2, radii=(0.5,), budget="fast")
    with pytest.raises(InputError, match="12 rows"):
        r2et.audit(network(), x, x[:5, 0], k=2, radii=(0.5,), budget="fast")
    with pytest.raises(InputError, match="the model has one output, and no classes but 0"):
        Gradient()(network(), x, CLASSES)
    with pytest.raises(ModelError, match=r"z\.reshape\(-1, 1\)"):
        Gradient()(nn.Sequential(network(), nn.Flatten(0)), x)


def test_a_model_with_one_output_of_r2et_is_saved_and_opened(tmp_path):
    model = models.MLP(FEATURES, 1, hidden=(4,))
    r2et.save_model(model, tmp_path)
    x = rows().float()
    assert torch.equal(r2et.open_model(tmp_path).model(x), model(x))


# --- lists of reasons -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["additive", "linear", "network"])
def test_lists_by_contributions_to_the_output_are_certified(kind):
    """As those of two classes with the same log-odds, and no move inside a radius that is tried changes a list."""
    columns = r2et.Columns(tuple("abcde"), tuple((i,) for i in range(5)), ("number",) * 5, ((),) * 5)
    torch.manual_seed(1)
    model = {
        "additive": lambda: models.Additive(FEATURES, 1, units=4),
        "linear": lambda: models.Linear(FEATURES, 1),
        "network": lambda: models.MLP(FEATURES, 1, (6,), "softplus", 3.0),
    }[kind]()
    model = model.double().eval().requires_grad_(requires_grad=False)
    x = rows()
    explainer = Contributions(columns=columns, background=Background.from_rows(rows(40), columns, size=6))
    said = r2et.certify(model, x, 2, explainer=explainer)
    pair = r2et.certify(two_sided(model), x, 2, explainer=explainer, target=torch.ones(N, dtype=torch.int64))
    torch.testing.assert_close(said.limits, pair.limits, rtol=1e-6, atol=0)
    assert said.sound
    assert (said.radius > 0).double().mean() > 0.6

    def lists(points: torch.Tensor) -> torch.Tensor:
        return ranking.list_mask(explainer(model, points), 2, positive=True)

    before, changed = lists(x), 0
    for seed in range(300):
        step = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        step /= step.norm(dim=1, keepdim=True)
        radius = said.radius.clamp_max(10.0)[:, None]
        assert (lists(x + 0.999 * radius * step) == before).all()
        changed += int((lists(x + 3 * radius * step) != before).any())
    assert changed > 30


def test_output_and_log_odds_are_one_score_of_a_list_by_contributions():
    columns = r2et.Columns(tuple("abcde"), tuple((i,) for i in range(5)), ("number",) * 5, ((),) * 5)
    model, x = models.Additive(FEATURES, 1).double().eval(), rows()
    background = Background.from_rows(rows(40), columns, size=6)
    plain = Contributions(columns=columns, background=background)
    limits = [
        r2et.certify(model, x, 2, explainer=replace(plain, score=score)).limits
        for score in ("output", "log-odds", "logit")
    ]
    assert torch.equal(limits[0], limits[1])
    assert torch.equal(limits[0], limits[2])
