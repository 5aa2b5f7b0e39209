"""What every model must do: explain, differentiate twice, be attacked and trained, be saved and smoothed."""

import json

import pytest
import torch
from torch import nn

import r2et
from r2et import models, validate
from r2et.checkpoints import load_model, save_model
from r2et.errors import InputError
from tests.models.table import CASES

TABLE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
ACTIVATION = pytest.mark.parametrize(
    "settings", [{}, {"activation": "softplus", "beta": 3.0}], ids=["relu", "softplus"]
)


@TABLE
def test_logits_and_explanations_have_their_shapes(case):
    model, x = case.model(), case.inputs()
    logits = model(x)
    assert logits.ndim == 2
    assert logits.shape[0] == len(x)
    scores = case.explainer(model, x)
    assert scores.shape == (len(x), *case.explained)
    assert torch.isfinite(scores).all()
    assert (scores != 0).any(-1).all(), "an explanation of zeros says nothing"


@TABLE
def test_rows_do_not_know_each_other(case):
    model, x = case.model(), case.inputs(5)
    torch.testing.assert_close(model(x)[3:4], model(x[3:4]), rtol=0, atol=1e-12)


@TABLE
@ACTIVATION
def test_the_derivative_of_an_explanation_equals_finite_differences(case, settings):
    model, x = case.model(**settings), case.inputs(2)
    target = model(x).argmax(1)
    generator = torch.Generator().manual_seed(2)
    learned = [p for p in model.parameters() if p.requires_grad]
    along = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in [x, *learned]]
    mix = torch.randn(case.explainer(model, x, target).shape, generator=generator, dtype=x.dtype)

    def value(step: float) -> float:
        with torch.no_grad():
            for p, direction in zip(learned, along[1:], strict=True):
                p += step * direction
        found = (case.explainer(model, x + step * along[0], target) * mix).sum()
        with torch.no_grad():
            for p, direction in zip(learned, along[1:], strict=True):
                p -= step * direction
        return float(found)

    point = x.clone().requires_grad_()
    total = (case.explainer(model, point, target, create_graph=True) * mix).sum()
    slopes = torch.autograd.grad(total, [point, *learned], allow_unused=True)
    pairs = zip(slopes, along, strict=True)
    analytic = sum(float((slope * direction).sum()) for slope, direction in pairs if slope is not None)
    step = 1e-6
    numeric = (value(step) - value(-step)) / (2 * step)
    assert abs(numeric) > 1e-6, "the test could not fail"
    assert analytic == pytest.approx(numeric, rel=1e-5)


@TABLE
def test_zeros_have_finite_derivatives(case):
    model = case.model()
    x = torch.zeros_like(case.inputs(2)).requires_grad_()
    scores = case.explainer(model, x, create_graph=True)
    assert torch.isfinite(scores).all()
    learned = [p for p in model.parameters() if p.requires_grad]
    for slope in torch.autograd.grad(scores.square().sum(), [x, *learned], allow_unused=True):
        assert slope is None or torch.isfinite(slope).all()


@TABLE
def test_an_attack_runs(case):
    model, x = case.model(), case.inputs(3)
    attack = r2et.attacks.ERAttack(k=3, radius=1.0, steps=4, explainer=case.explainer)
    result = attack(model, x)
    assert result.kept.all()
    assert (result.distance <= 1 + 1e-9).all()
    assert torch.isfinite(result.after).all()


@TABLE
@pytest.mark.parametrize("scale_free", [False, True])
def test_r2et_trains_it(case, scale_free):
    model, x = case.model().train(), case.inputs(4)
    y = torch.tensor([0, 1, 1, 0])
    objective = r2et.objectives.R2ET(k=3, explainer=case.explainer, scale_free=scale_free)
    objective(model, x, y).backward()
    for name, p in model.named_parameters():
        if p.requires_grad:
            assert p.grad is not None, name
            assert torch.isfinite(p.grad).all(), name
    assert any(bool((p.grad != 0).any()) for p in model.parameters() if p.requires_grad)


@TABLE
@ACTIVATION
def test_a_checkpoint_brings_it_back(case, settings, tmp_path):
    model, x = case.model(**settings), case.inputs()
    save_model(model, tmp_path)
    again, _ = load_model(tmp_path)
    assert type(again) is type(model)
    assert again.architecture == json.loads(json.dumps(model.architecture)) == model.architecture
    assert torch.equal(again(x), model(x))
    assert [p.requires_grad for p in again.parameters()] == [p.requires_grad for p in model.parameters()]


@TABLE
def test_describing_a_model_leaves_random_numbers_alone(case):
    model, state = case.model(), torch.get_rng_state()
    assert model.architecture["name"] in models.MODELS.names()
    assert torch.equal(torch.get_rng_state(), state)


@TABLE
def test_a_smooth_copy_is_a_model_of_the_same_kind(case):
    model, x = case.model(), case.inputs()
    smooth = validate.smooth(model, beta=4.0)
    assert type(smooth) is type(model), "its forward was traced, not wrapped"
    assert not any(isinstance(layer, nn.ReLU) for layer in smooth.modules())
    built = models.create(**smooth.architecture).double().eval()
    built.load_state_dict(model.state_dict())
    assert torch.equal(built(x), smooth(x))
    assert not torch.equal(built(x), model(x))


@TABLE
def test_no_activation_works_in_place(case):
    for layer in case.model().modules():
        assert not getattr(layer, "inplace", False)


@TABLE
def test_a_changed_model_is_not_described(case):
    model = case.model()
    (first, *_) = [name for name, layer in model.named_modules() if isinstance(layer, nn.ReLU)]
    parent, _, child = first.rpartition(".")
    setattr(model.get_submodule(parent), child, nn.ELU())
    with pytest.raises(InputError, match="was changed and cannot be described"):
        _ = model.architecture


@TABLE
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "reul"}, r"unknown activation 'reul': did you mean 'relu'\?"),
        ({"beta": 2.0}, r"beta=2.0 .* 'relu'"),
        ({"activation": "softplus", "beta": -1.0}, r"beta=-1.0"),
    ],
)
def test_bad_activations(case, settings, message):
    with pytest.raises(InputError, match=message):
        case.make(**settings)


@pytest.mark.parametrize("name", ["siamese gcn", "gcn", "cnn"])
def test_a_training_step_can_be_traced_as_a_whole(name):
    """Models without BatchNorm keep no buffers, so that `fit(..., compile=True)` can flatten a step."""
    assert not list(CASES[name].model().buffers())
