import copy
import json

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from r2et import validate
from r2et.errors import InputError, ModelError
from r2et.explainers import Gradient
from r2et.validate import Finding, Report

from .models import (
    ROWS,
    Attention,
    Calls,
    OnceOnly,
    Recurrent,
    X,
    exported,
    found,
    ignored_result,
    mlp,
    second_derivative,
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_a_smooth_model_in_evaluation_mode_has_no_findings():
    report = validate.check(mlp(nn.Softplus(), nn.Dropout(0.5), nn.BatchNorm1d(16)).eval(), X, k=2)
    assert report.findings == ()
    assert report.ok
    assert report.summary() == "0 errors, 0 warnings, 0 notes"


BENT = [nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.PReLU(), nn.Hardtanh(), nn.Threshold(0.1, 0.0), nn.Softshrink()]
SMOOTH = [nn.Softplus(), nn.GELU(), nn.SiLU(), nn.Tanh(), nn.ELU(), nn.Sigmoid()]


@pytest.mark.parametrize("layer", BENT, ids=str)
def test_layers_without_a_second_derivative_are_found(layer):
    finding = found(mlp(layer))["piecewise-linear"]
    assert finding.severity == "warning"
    assert finding.where == f"layer '1' ({type(layer).__name__})"
    assert "validate.smooth" in finding.repair


@pytest.mark.parametrize("layer", SMOOTH, ids=str)
def test_layers_with_a_second_derivative_are_not_found(layer):
    assert "piecewise-linear" not in found(mlp(layer))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.relu, "relu"),
        (torch.relu, "relu"),
        (Tensor.relu, "relu"),
        (ignored_result, "relu_"),
        (F.leaky_relu, "leaky_relu"),
        (F.relu6, "relu6"),
    ],
)
def test_functions_without_a_second_derivative_are_found(function, name):
    assert found(Calls(function).eval())["piecewise-linear"].where == f"{name}() in the model (Calls)"


def test_smooth_functions_are_not_found():
    assert found(Calls(F.gelu).eval()) == {}


def test_the_layer_that_calls_a_function_is_named():
    model = nn.Sequential(nn.Linear(4, 4), Calls(F.relu)).eval()
    assert found(model)["piecewise-linear"].where == "relu() in layer '1' (Calls)"


def test_a_recurrent_layer_of_relu_is_found():
    assert "piecewise-linear" in found(Recurrent(nn.RNN(8, 5, nonlinearity="relu", batch_first=True)), ROWS)
    assert "piecewise-linear" not in found(Recurrent(nn.RNN(8, 5, batch_first=True)), ROWS)


def test_the_activation_inside_a_transformer_layer_is_found():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert found(Attention(layer).eval(), ROWS)["piecewise-linear"].where.startswith("relu() in layer 'layer'")


def test_an_exported_program_is_looked_into():
    program = exported(mlp(nn.ReLU()))
    assert found(program)["piecewise-linear"].where == "relu() in the model (GraphModule)"


def test_max_pooling_and_clamps_are_notes():
    finding = found(mlp(nn.Tanh(), nn.Unflatten(1, (1, 16)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(8, 16)))
    assert finding["selection"].severity == "note"
    assert finding["selection"].where == "layer '3' (MaxPool1d)"
    assert found(Calls(lambda h: h.clamp(min=0)))["selection"].where == "clamp() in the model (Calls)"
    pooled = mlp(nn.Tanh(), nn.Unflatten(1, (1, 16)), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(8, 16))
    assert "selection" not in found(pooled)


@pytest.mark.parametrize("model", [mlp(nn.ReLU(inplace=True)), mlp(nn.SiLU(True)), Calls(ignored_result).eval()])
def test_in_place_activations_are_found(model):
    assert found(model)["in-place"].severity == "warning"


@pytest.mark.parametrize("model", [mlp(nn.ReLU()), mlp(nn.SiLU()), Calls(torch.relu).eval()])
def test_other_activations_are_not_in_place(model):
    assert "in-place" not in found(model)


def test_an_in_place_layer_that_stops_differentiation_is_an_error_and_its_repair_works():
    # the derivative of sigmoid needs its output, which ReLU overwrites
    model = mlp(nn.Sigmoid(), nn.ReLU(inplace=True))
    findings = found(model)
    assert findings["double-backward"].severity == "error"
    assert "inplace operation" in findings["double-backward"].message
    assert findings["in-place"].where == "layer '2' (ReLU)"
    model[2].inplace = False
    assert "double-backward" not in found(model)


def test_a_model_that_overwrites_its_input_is_reported_and_the_input_survives():
    model, x = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)).eval(), X.clone()
    findings = found(model, x)
    assert "leaf Variable" in findings["double-backward"].message
    assert findings["in-place"].where == "layer '0' (ReLU)"
    assert torch.equal(x, X)


@pytest.mark.parametrize(
    "layer", [None, nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu")]
)
def test_attention_without_double_backward_is_an_error_and_its_repair_works(layer):
    model = Attention(layer).eval()
    with pytest.raises(RuntimeError, match="not implemented"):
        second_derivative(model, ROWS)
    report = validate.check(model, ROWS)
    assert not report.ok
    assert [finding.code for finding in report.findings] == ["attention"]
    assert "SDPBackend.MATH" in report.findings[0].repair
    with sdpa_kernel(SDPBackend.MATH):
        assert second_derivative(model, ROWS).abs().max() > 0
        assert validate.check(model, ROWS).findings == ()


class SingleHead(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


def test_attention_that_works_here_is_a_note():
    # without an axis of heads the CPU takes the math kernel
    finding = found(Attention(SingleHead()).eval(), ROWS)["attention"]
    assert finding.severity == "note"
    assert finding.where == "scaled_dot_product_attention() in layer 'layer' (SingleHead)"


def test_attention_with_weights_can_be_differentiated():
    assert found(Attention(nn.MultiheadAttention(8, 2, batch_first=True)).eval(), ROWS) == {}


def test_recurrent_layers_are_a_note_without_cuda():
    finding = found(Recurrent(nn.LSTM(8, 5, batch_first=True)).eval(), ROWS)["cudnn-rnn"]
    assert finding.severity == "note"
    assert finding.where == "layer 'layer' (LSTM)"
    assert "cudnn.flags(enabled=False)" in finding.repair


def test_recurrent_layers_that_fail_are_repaired_by_another_kernel():
    model = Recurrent(nn.LSTM(8, 5, batch_first=True), broken=True).eval()
    finding = found(model, ROWS)["cudnn-rnn"]
    assert finding.severity == "error"
    assert "training mode" in finding.message
    with torch.backends.cudnn.flags(enabled=False):
        assert validate.check(model, ROWS).ok


def test_any_other_failure_of_the_double_backward_is_quoted():
    # asked for x alone, autograd says nothing: the second derivative is simply missing
    point = X.clone().requires_grad_()
    first = torch.autograd.grad(Calls(OnceOnly.apply)(point)[:, 0].sum(), point, create_graph=True)[0]
    assert torch.autograd.grad(first.square().sum(), point, allow_unused=True)[0] is None
    finding = found(Calls(OnceOnly.apply).eval())["double-backward"]
    assert finding.severity == "error"
    assert "once_differentiable" in finding.message
    assert "double-backward" not in found(Calls(torch.exp).eval())


def test_batch_statistics_are_an_error():
    model = mlp(nn.BatchNorm1d(16), nn.Tanh()).train()
    assert found(model)["batch-norm"].severity == "error"
    assert found(model)["batch-norm"].where == "layer '1' (BatchNorm1d)"
    assert "batch-norm" not in found(model.eval())


def test_batch_norm_without_running_statistics_mixes_rows_in_evaluation_mode_too():
    assert "batch-norm" in found(mlp(nn.BatchNorm1d(16, track_running_stats=False)))


def test_dropout_is_found_while_it_is_on():
    model = mlp(nn.Tanh(), nn.Dropout(0.5)).train()
    assert found(model)["dropout"].where == "layer '2' (Dropout)"
    assert found(model)["dropout"].severity == "error"
    assert "dropout" not in found(model.eval())
    assert "dropout" not in found(mlp(nn.Tanh(), nn.Dropout(0.0)).train())


def test_dropout_that_forgets_the_mode_is_found_in_evaluation_mode():
    assert found(Calls(F.dropout).eval())["dropout"].where == "dropout() in the model (Calls)"
    assert "dropout" not in found(Calls(lambda h: F.dropout(h, training=False)).train())
    assert "dropout" in found(Calls(lambda h: torch.dropout(h, 0.5, True)))
    assert "dropout" not in found(Calls(lambda h: torch.dropout(h, 0.5, False)))


def test_dropout_inside_attention_and_recurrent_layers_is_found():
    attention = Attention(nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True))
    assert found(attention, ROWS)["dropout"].where == "layer 'layer' (MultiheadAttention)"
    recurrent = Recurrent(nn.GRU(8, 5, num_layers=2, dropout=0.5, batch_first=True))
    assert found(recurrent, ROWS)["dropout"].where == "layer 'layer' (GRU)"
    assert "dropout" not in found(attention.eval(), ROWS) | found(recurrent.eval(), ROWS)


def test_training_mode_is_a_note():
    assert found(mlp(nn.Tanh()).train())["training-mode"].severity == "note"
    assert "training-mode" not in found(mlp(nn.Tanh()))


def test_looking_changes_neither_the_model_nor_the_random_state():
    model = mlp(nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5)).train()
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    validate.check(model, X, k=2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(not layer._forward_hooks and not layer._forward_pre_hooks for layer in model.modules())


def test_saturated_rows_are_counted():
    model = nn.Linear(4, 2)
    model.weight.data = torch.tensor([[0.0] * 4, [1.0, 0.0, 0.0, 0.0]])
    model.bias.data.zero_()
    x = torch.tensor([[13.0], [14.0], [-20.0], [2.0]]).expand(4, 4)  # p(1-p) is 2.3e-6, 8.3e-7, 2e-9, 0.1
    finding = found(model.eval(), x)["saturated"]
    assert finding.where == "2 of 4 rows: 1, 2"
    assert "50.0%" in finding.message
    assert finding.severity == "note"
    assert found(model, x, explainer=Gradient(score="probability"))["saturated"].severity == "warning"
    assert "saturated" not in found(model, x[3:])


def test_vanishing_explanations_are_counted():
    model = mlp(nn.ReLU())
    model[0].weight.data.fill_(1.0)
    model[0].bias.data.zero_()
    x = torch.tensor([[1.0], [-1.0], [-2.0]]).expand(3, 4)
    assert found(model, x)["vanishing"].where == "2 of 3 rows: 1, 2"
    assert found(model, x)["vanishing"].severity == "warning"
    assert found(model, x[1:])["vanishing"].severity == "error"
    assert "vanishing" not in found(model, x[:1])


def test_explanations_below_the_smallest_normal_number_vanish():
    model = nn.Linear(4, 2).eval()
    model.weight.data = torch.tensor([[0.0] * 4, [1e-39, 2e-39, 3e-39, 4e-39]])
    assert "vanishing" in found(model)
    assert "vanishing" not in found(model.double(), X.double())


def test_one_vanishing_input_of_a_pair_counts():
    class FirstOnly(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.pad((x[:, 0] * torch.arange(1.0, 5.0)).sum(1, keepdim=True), (1, 0))

    pairs = torch.randn(5, 2, 4)
    assert found(FirstOnly(), pairs, explainer=Gradient(inputs=2))["vanishing"].where.startswith("5 of 5 rows")


def test_ties_at_the_kth_place_are_counted_when_k_is_given():
    model = nn.Linear(4, 2).eval()
    model.weight.data = torch.tensor([[0.0] * 4, [4.0, 2.0, -2.0, 1.0]])
    assert found(model, k=2)["tie"].where == "12 of 12 rows: 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"
    assert "tie" not in found(model, k=1)
    assert "tie" not in found(model)


def test_errors_come_first_and_the_summary_fits_80_columns():
    model = mlp(nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.5)).train()
    report = validate.check(model, X)
    severities = [finding.severity for finding in report.findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert not report.ok
    text = report.summary()
    assert text.startswith("2 errors, 2 warnings, 1 note\n")
    assert max(map(len, text.splitlines())) <= 80
    for finding in report.findings:
        assert f"{finding.severity} [{finding.code}]" in text


def test_a_report_survives_json():
    report = validate.check(mlp(nn.ReLU()), X)
    restored = json.loads(json.dumps(report.to_dict()))
    assert restored["ok"] is True
    assert Report(tuple(Finding(**finding) for finding in restored["findings"])) == report


def test_torchscript_is_said_to_be_opaque():
    model = torch.jit.trace(mlp(nn.ReLU()), X)
    assert "cannot be seen" in found(model)["torchscript"].message
    with pytest.raises(ModelError, match=r"before torch\.jit\.script"):
        validate.smooth(model)


@pytest.mark.parametrize(
    ("model", "x", "options", "match"),
    [
        (nn.Linear(4, 2), X.long(), {}, r"use x\.float\(\)"),
        (nn.Linear(4, 2), X / 0, {}, "NaN or infinite"),
        (nn.Linear(4, 2), X[0], {}, r"x\[None\]"),
        (nn.Linear(4, 2), X[:0], {}, "x is empty"),
        (nn.Linear(4, 2), X, {"k": 4}, "less than the 4 features"),
        (nn.Linear(4, 2), X, {"explainer": Gradient(inputs=2)}, "inputs=2 needs pairs"),
        (nn.Sequential(nn.Linear(4, 2), nn.Softmax(1)), X, {}, "remove the final softmax"),
        (
            Calls(lambda h: h.detach().sum(1, keepdim=True) * torch.ones(16)).requires_grad_(False),
            X,
            {},
            "no gradient",
        ),
    ],
)
def test_check_refuses(model, x, options, match):
    with pytest.raises(InputError, match=match):
        validate.check(model, x, **options)


def test_a_model_that_does_not_fit_its_input_is_an_error_with_its_own_words():
    with pytest.raises(ModelError, match=r"shape \(4, 4\).*shapes cannot be multiplied"):
        validate.check(nn.Linear(5, 2), X)
