import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from r2et import validate
from r2et.errors import InputError

from .models import ROWS, Attention, Calls, X, exported, found, ignored_result, mlp, second_derivative


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


FUNCTIONS = [F.relu, torch.relu, Tensor.relu, ignored_result, F.leaky_relu, F.relu6, F.hardtanh]
INPLACE = [lambda h: F.relu(h, inplace=True), lambda h: F.leaky_relu(h, 0.2, True), lambda h: F.relu_(h)]
LAYERS = [nn.ReLU(), nn.ReLU(inplace=True), nn.LeakyReLU(0.3), nn.ReLU6(), nn.Hardtanh(-0.5, 0.7)]
MODELS = [*map(mlp, LAYERS), *map(Calls, [*FUNCTIONS, *INPLACE])]


@pytest.mark.parametrize("model", MODELS)
def test_a_smooth_copy_converges_to_the_model(model):
    model = copy.deepcopy(model).double()
    x = 3 * X.double()
    distances = [(validate.smooth(model, beta)(x) - model(x)).abs().max().item() for beta in (10.0, 100.0, 1e5)]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 1e-4


@pytest.mark.parametrize("model", MODELS)
def test_a_smooth_copy_has_a_second_derivative_and_the_model_has_not(model):
    assert "piecewise-linear" in found(model)
    assert second_derivative(model, X).abs().max() == 0
    copied = validate.smooth(model)
    assert second_derivative(copied, X).abs().max() > 0
    assert "piecewise-linear" not in found(copied)


@pytest.mark.parametrize("model", MODELS)
def test_a_smooth_copy_keeps_names_values_and_flags(model):
    model = copy.deepcopy(model).train()
    model.get_submodule("0" if isinstance(model, nn.Sequential) else "first").eval()
    text, before = str(model), copy.deepcopy(model.state_dict())
    copied = validate.smooth(model)
    assert str(model) == text
    assert list(copied.state_dict()) == list(before)
    assert [name for name, _ in copied.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert {n: m.training for n, m in copied.named_modules()} == {n: m.training for n, m in model.named_modules()}
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    copied.load_state_dict(before)
    torch.testing.assert_close(copied(X), validate.smooth(model)(X))


def test_layers_are_swapped_without_a_wrapper():
    model = mlp(nn.ReLU())
    copied = validate.smooth(model, beta=3.0)
    assert type(copied) is nn.Sequential
    assert isinstance(copied[1], nn.Softplus)
    assert copied[1].beta == 3.0
    assert isinstance(model[1], nn.ReLU)
    assert isinstance(validate.smooth(nn.ReLU()), nn.Softplus)


def test_shared_layers_stay_shared():
    shared = nn.ReLU()
    copied = validate.smooth(mlp(shared, nn.Linear(16, 16), shared))
    assert copied[1] is copied[3]
    assert copied[1] is not shared


class Configured(Calls):
    width = 16

    @property
    def architecture(self) -> str:
        return f"mlp-{self.width}"


def test_the_wrapper_behaves_like_the_model_inside():
    wrapped = validate.smooth(Configured(F.relu))
    assert wrapped.architecture == "mlp-16"
    assert wrapped.first is wrapped.get_submodule("first")
    with pytest.raises(AttributeError, match="nothing"):
        _ = wrapped.nothing
    again = copy.deepcopy(wrapped)
    torch.testing.assert_close(again(X), wrapped(X))
    with torch.no_grad():
        again.first.weight.add_(1)
    assert not torch.allclose(again(X), wrapped(X))
    wrapped.double().eval()
    assert wrapped(X.double()).dtype == torch.float64
    assert not wrapped.model.training
    assert not wrapped.first.training


def test_training_a_wrapped_model_moves_it():
    wrapped = validate.smooth(Calls(F.relu))
    before = wrapped(X).detach()
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    F.cross_entropy(wrapped(X), torch.zeros(12, dtype=torch.long)).backward()
    optimizer.step()
    assert not torch.allclose(wrapped(X), before)


@pytest.mark.parametrize("activation", ["relu", nn.ReLU()])
def test_the_fused_transformer_kernel_does_not_bring_relu_back(activation):
    model = Attention(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation=activation)).eval()
    copied = validate.smooth(model, beta=1.0)
    with torch.no_grad():
        fused = copied(ROWS)
    torch.testing.assert_close(fused, copied(ROWS))
    assert not torch.allclose(fused, model(ROWS), atol=1e-3)


def test_an_exported_program_can_be_smoothed_and_copied():
    program = exported(mlp(nn.ReLU()))
    copied = validate.smooth(program)
    assert second_derivative(copied, X).abs().max() > 0
    torch.testing.assert_close(copy.deepcopy(copied)(X), copied(X))


@pytest.mark.parametrize("beta", [0.0, -1.0, float("nan"), float("inf")])
def test_smooth_refuses_a_beta_that_is_not_positive(beta):
    with pytest.raises(InputError, match=f"beta={beta}"):
        validate.smooth(mlp(nn.ReLU()), beta)
