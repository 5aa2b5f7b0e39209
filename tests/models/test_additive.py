import copy
import json
import math

import pytest
import torch
from torch import Tensor, nn

import r2et
from r2et import models
from r2et.checkpoints import load_model, save_model
from r2et.columns import Columns
from r2et.enclosure import extract
from r2et.errors import InputError
from tests.models_with_answers import generator, normal
from tests.tables_with_traps import COLUMNS, GROUPS, table


def net(classes: int = 2, seed: int = 0, **settings: object) -> models.Additive:
    settings = {"numeric": [0, 1, 2], "groups": GROUPS, "units": 4, "beta": 3.0} | settings
    model = models.Additive(COLUMNS.n, classes, **settings).double()
    with torch.no_grad():
        for number, weight in enumerate(model.parameters()):
            weight.copy_(normal(*weight.shape, seed=seed + 10 * number))
    return model.eval()


def by_hand(model: models.Additive, x: Tensor) -> Tensor:
    """c + v . x + sum of a softplus(w x + b), one term after the other, for the outputs (N, O)."""
    model = copy.deepcopy(model).requires_grad_(requires_grad=False)
    rows = []
    for row in x.tolist():
        outputs = []
        for o in range(len(model.bias)):
            total = float(model.bias[o])
            for i, value in enumerate(row):
                own = next((group for group in model.groups if i in group), None)
                mean = 0.0 if own is None else sum(float(model.weight[o, j]) for j in own) / len(own)
                total += (float(model.weight[o, i]) - mean) * value
            for place, i in enumerate(model.numeric):
                for u in range(model.steepness.shape[1]):
                    z = float(model.steepness[place, u]) * row[i] + float(model.shift[place, u])
                    height = float(model.heights.weight[o, place * model.steepness.shape[1] + u])
                    total += height * math.log1p(math.exp(model.activation.beta * z)) / model.activation.beta
            outputs.append(total)
        rows.append(outputs)
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("settings", [{}, {"groups": ()}, {"numeric": [2]}, {"numeric": []}, {"units": 1}])
def test_two_classes_have_the_logits_0_and_s(settings):
    model, x = net(**settings), table(6)
    logits = model(x)
    assert (logits[:, 0] == 0).all()
    torch.testing.assert_close(logits[:, 1:], by_hand(model, x), rtol=0, atol=1e-12)


def test_more_classes_have_a_sum_each():
    model, x = net(3), table(6)
    torch.testing.assert_close(model(x), by_hand(model, x), rtol=0, atol=1e-12)


def test_no_column_knows_another():
    model, x = net(), table(5)
    hessian = torch.func.hessian(lambda row: model(row[None])[0, 1])(x[0])
    assert (hessian - hessian.diag().diag()).abs().max() == 0
    assert (hessian.diag()[:3] != 0).all()
    assert (hessian.diag()[3:] == 0).all()


def test_the_sum_of_a_group_moves_nothing():
    model, x = net(), table(5)
    for group in GROUPS:
        off = x.clone()
        off[:, list(group)] += 7.0
        torch.testing.assert_close(model(off), model(x), rtol=0, atol=1e-12)
    assert torch.allclose(net(groups=())(x), net()(x)) is False


def test_shapes_are_what_columns_add():
    model, x = net(), table(4)
    grid = torch.linspace(-2, 2, 7, dtype=torch.float64, requires_grad=True)
    for feature in range(COLUMNS.n):
        values, slopes = model.shape(feature, grid)
        rows = x[:1].repeat(7, 1)
        rows = torch.cat([rows[:, :feature], grid[:, None], rows[:, feature + 1 :]], 1)
        s = model(rows)[:, 1]
        torch.testing.assert_close(values - values[0], s - s[0], rtol=0, atol=1e-12)
        (by_autograd,) = torch.autograd.grad(s.sum(), grid)
        torch.testing.assert_close(slopes, by_autograd, rtol=0, atol=1e-12)
    assert model.shape(0, grid)[0].shape == (7,)
    assert net(3).shape(0, grid)[0].shape == (7, 3)


def test_explanations_have_second_derivatives():
    model, x = net(), table(3)
    target = model(x).argmax(1)

    def mean(*weights: Tensor) -> Tensor:
        names = [name for name, _ in model.named_parameters()]
        changed = dict(zip(names, weights, strict=True))
        point = x.clone().requires_grad_()
        s = torch.func.functional_call(model, changed, point)[:, 1]
        (slope,) = torch.autograd.grad(s.sum(), point, create_graph=True)
        return slope.square().sum()

    weights = [weight.detach().clone().requires_grad_() for weight in model.parameters()]
    assert torch.autograd.gradcheck(mean, weights)
    objective = r2et.objectives.R2ET(k=3)
    objective(model.train(), x, target).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p is not model.bias)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_checkpoint_brings_it_back(classes, tmp_path):
    model, x = net(classes), table(5)
    save_model(model, tmp_path)
    again, _ = load_model(tmp_path)
    assert type(again) is models.Additive
    assert again.architecture == json.loads(json.dumps(model.architecture)) == model.architecture
    assert torch.equal(again(x), model(x))


def test_describing_it_leaves_random_numbers_alone():
    model, state = net(), torch.get_rng_state()
    assert models.create(**model.architecture).architecture == model.architecture
    torch.set_rng_state(state)
    assert model.architecture["name"] == "additive"
    assert torch.equal(torch.get_rng_state(), state)


def test_a_changed_model_is_not_described():
    model = net()
    model.activation = nn.Tanh()
    with pytest.raises(InputError, match="was changed and cannot be described"):
        _ = model.architecture


@pytest.mark.parametrize("classes", [2, 3])
def test_enclosures_read_it(classes):
    model, x = net(classes), table(5)
    network = extract(model, x.shape[1:])
    torch.testing.assert_close(network.forward(x)[1], model(x), rtol=0, atol=1e-12)
    assert len(network.layers) == 1
    assert ((network.layers[0].matrices[-1] != 0).sum(1) == 1).all(), "a unit reads one feature"


def test_knots_are_where_the_rows_are():
    x = table(400)
    x[:, 0] = torch.cat([torch.zeros(390), torch.arange(10.0)])  # nearly always 0, like a capital gain
    model = models.Additive.from_rows(x.float(), 2, columns=COLUMNS, units=8)
    assert model.numeric == [0, 1, 2]
    assert model.groups == [list(group) for group in GROUPS]
    knots = -model.shift / model.steepness
    assert (knots[0, ::2] == 0).all(), "every second one at a quantile"
    torch.testing.assert_close(knots[0, 1::2], torch.tensor([1.0, 4.0, 6.0, 9.0]), rtol=0, atol=1e-5)
    assert (knots[1:].abs() <= x[:, 1:3].abs().amax() + 1e-5).all()
    assert ((model.steepness.abs() >= 0.3) & (model.steepness.abs() <= 1.7)).all()
    assert model.steepness.min() < 0 < model.steepness.max()


def test_initial_weights_depend_on_their_seed_alone():
    x, state = table(50).float(), torch.get_rng_state()
    first, again = (models.Additive.from_rows(x, 2, columns=COLUMNS, seed=3) for _ in range(2))
    other = models.Additive.from_rows(x, 2, columns=COLUMNS, seed=4)
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), other(x))
    assert torch.equal(torch.get_rng_state(), state)


def test_columns_can_be_seen_in_the_rows():
    x = table(200)
    model = models.Additive.from_rows(x, 2)
    assert model.numeric == [0, 1, 2]
    assert sorted(map(sorted, model.groups)) == sorted(map(list, GROUPS))


def test_it_learns_what_no_linear_model_can():
    draws = generator(5)
    x = torch.rand(600, 3, generator=draws) * 4 - 2
    y = (x[:, 0].square() + x[:, 1] > 1.5).long()
    columns = Columns(("a", "b", "c"), ((0,), (1,), (2,)), ("number",) * 3, ((),) * 3)
    model = models.Additive.from_rows(x, 2, columns=columns)
    settings = r2et.training.Settings(epochs=20, lr=3e-2, batch_size=64)
    r2et.fit(model, (x[:500], y[:500]), (x[500:], y[500:]), settings=settings)
    accuracy = (model(x[500:]).argmax(1) == y[500:]).double().mean()
    assert accuracy > 0.93, "a linear model has about .7"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"numeric": [0, 0]}, r"numeric=\[0, 0\]"),
        ({"numeric": [99]}, r"numeric=\[99\]"),
        ({"numeric": 3}, r"numeric=3"),
        ({"groups": [[3]]}, "fewer than two"),
        ({"groups": [[3, 99]]}, "99"),
        ({"groups": [[0, 3]]}, r"feature 0 .* no shape function"),
        ({"units": 0}, "units=0"),
        ({"beta": -1.0}, r"beta=-1.0"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        net(**settings)
