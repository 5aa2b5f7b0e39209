"""torch.export programs: the same numbers, the same audit, and nothing that runs code."""

import io
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

import r2et
from r2et.predictors import Program, load_program
from tests.predictors import nets
from tests.predictors.archives import Bomb

MODELS = {
    "mlp": (nets.mlp, (20, 5), torch.float32),
    "residual": (nets.Residual, (20, 5), torch.float32),
    "float64": (nets.in_float64, (20, 5), torch.float64),
    "convolutional": (nets.convolutional, (12, 36), torch.float32),
    "MLP of r2et": (lambda: r2et.models.MLP(5, 2, activation="softplus"), (40, 5), torch.float32),
    "attention": (nets.attention, (4, 5), torch.float32),
}


@pytest.fixture(params=MODELS)
def exported(request, tmp_path):
    make, shape, dtype = MODELS[request.param]
    torch.manual_seed(0)
    model = make().eval()
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.running_mean.normal_(), layer.running_var.uniform_(0.5, 2.0)
    x = torch.randn(*shape, dtype=dtype)
    nets.export(model, x, tmp_path / "model.pt2")
    return request.param, model, load_program(tmp_path / "model.pt2"), x


def second_derivative(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        scores = r2et.explainers.Gradient()(model, x.clone().requires_grad_(), create_graph=True)
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        found = torch.autograd.grad(scores.square().sum(), weights, allow_unused=True)
    return torch.stack([part.square().sum() for part in found if part is not None]).sum()


def test_logits_and_two_derivatives_are_the_module_s(exported):
    _, model, program, x = exported
    assert torch.equal(program(x), model(x))
    assert torch.equal(program(x[:1]), model(x[:1]))
    ours, theirs = second_derivative(program, x), second_derivative(model, x)
    assert theirs > 0
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    assert program.dtype == x.dtype
    assert program.input_shape == tuple(x.shape[1:])


def without_places(found: dict) -> dict:
    """Findings name a layer; a function of the model has no name in a program."""
    findings = [{**entry, "where": ""} for entry in found["validation"]["findings"]]
    return {**found, "validation": findings}


@pytest.mark.parametrize(
    "exported",
    [
        *("mlp", "convolutional", "attention"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("residual", "float64", "MLP of r2et")),
    ],
    indirect=True,
)
def test_the_audit_is_the_module_s(exported):
    name, model, program, x = exported
    y = (x[:, 0] > 0).long()
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 3}
    with sdpa_kernel(SDPBackend.MATH):
        ours, theirs = (r2et.audit(net, x, y, **options).to_dict() for net in (program, model))
    if name == "attention":
        # in evaluation mode torch runs a fused layer, whose last digits differ; there is no certificate of either
        assert ours["certificate"] is theirs["certificate"] is None
        assert ours["attacks"] == theirs["attacks"]
        assert ours["accuracy"] == theirs["accuracy"]
        return
    # max-pooling after GELU has none
    assert (theirs["certificate"] is None) == (name == "convolutional")
    assert without_places(ours) == without_places(theirs)
    if name in ("mlp", "float64", "MLP of r2et"):
        assert ours == theirs


def test_another_model_has_another_audit(tmp_path):
    """The comparison above can fail."""
    torch.manual_seed(0)
    x = torch.randn(30, 5)
    y = (x[:, 0] > 0).long()
    model, other = nets.mlp(), nets.mlp()
    nets.export(other, x, tmp_path / "other.pt2")
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 3}
    program = load_program(tmp_path / "other.pt2")
    ours, theirs = (r2et.audit(net, x, y, **options).to_dict() for net in (program, model))
    assert ours["attacks"] != theirs["attacks"]


def test_layers_have_the_names_they_had():
    x = torch.randn(4, 5)
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    model = nets.Residual().eval()
    program = Program(torch.export.export(model, (x,), dynamic_shapes=shapes))
    assert isinstance(program.get_submodule("body.0"), nn.Linear)
    assert isinstance(program.get_submodule("body.2"), nn.Softplus)
    assert program.get_submodule("body.2").beta == 2.0
    assert not program.training


def test_a_layer_that_is_used_twice():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 5), nn.Linear(5, 2)

        def forward(self, x):
            return self.last(torch.tanh(self.first(torch.tanh(self.first(x)))))

    model, x = Twice().eval(), torch.randn(4, 5)
    program = Program(torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)))
    assert torch.equal(program(x), model(x))


def test_operators_that_are_not_known_still_run(tmp_path):
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(5))
            self.register_buffer("shift", torch.randn(5))
            self.last = nn.Linear(5, 2)

        def forward(self, x):
            return self.last(torch.sin(x * self.scale + self.shift).view(x.shape[0], -1))

    model, x = Odd().eval(), torch.randn(6, 5)
    nets.export(model, x, tmp_path / "odd.pt2")
    assert torch.equal(load_program(tmp_path / "odd.pt2")(x), model(x))


def test_batch_statistics_of_an_export_in_training_mode_are_reported():
    model, x = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 2)).train(), torch.randn(6, 5)
    program = Program(torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)))
    assert "dropout" in [finding.code for finding in r2et.validate.check(program, x).findings]


# --- refusals -------------------------------------------------------------------------------------------------


def test_a_fixed_batch_is_refused_with_the_call_to_use(tmp_path):
    x = torch.randn(2, 5)
    torch.export.save(torch.export.export(nets.mlp().eval(), (x,)), str(tmp_path / "fixed.pt2"))
    with pytest.raises(r2et.errors.ModelError, match=r"fixed shape \(2, 5\)") as caught:
        load_program(tmp_path / "fixed.pt2")
    assert "dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)" in str(caught.value)
    assert "fixed.pt2" in str(caught.value)


class Several(nn.Module):
    def forward(self, x, y):
        return x + y


class Answers(nn.Module):
    def forward(self, x):
        return x, -x


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(7, 2)

    def forward(self, x):
        return self.rows(x).sum(1)


@pytest.mark.parametrize(
    ("model", "inputs", "words"),
    [
        (Several(), (torch.ones(2, 3), torch.ones(2, 3)), "2 inputs"),
        (Answers(), (torch.ones(2, 3),), "returns 2 values"),
        (Table(), (torch.ones(2, 3, dtype=torch.int64),), "floating-point"),
    ],
)
def test_what_is_not_a_classifier_of_one_tensor(tmp_path, model, inputs, words):
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=shapes), str(path))
    with pytest.raises(r2et.errors.ModelError, match=words):
        load_program(path)


def test_a_missing_file_and_one_of_something_else(tmp_path):
    with pytest.raises(r2et.errors.InputError, match="there is no file"):
        load_program(tmp_path / "none.pt2")
    (tmp_path / "text.pt2").write_text("hello")
    with pytest.raises(r2et.errors.InputError, match="it is not a whole zip archive"):
        load_program(tmp_path / "text.pt2")
    with zipfile.ZipFile(tmp_path / "zip.pt2", "w") as archive:
        archive.writestr("a/readme", "hello")
    with pytest.raises(r2et.errors.InputError, match=r"cannot be read as a torch\.export program"):
        load_program(tmp_path / "zip.pt2")


def replaced(source: Path, target: Path, suffix: str, content: bytes) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith(suffix) else old.read(name))


def test_nothing_is_unpickled(tmp_path):
    nets.export(nets.mlp(), torch.randn(4, 5), tmp_path / "good.pt2")
    buffer = io.BytesIO()
    torch.save(Bomb(tmp_path / "ran"), buffer)
    replaced(tmp_path / "good.pt2", tmp_path / "bad.pt2", "sample_inputs/model.pt", buffer.getvalue())
    # the bomb works: torch's own loader runs it
    torch.load(io.BytesIO(buffer.getvalue()), weights_only=False)
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    # inputs of an example are no part of the model: they are not opened
    load_program(tmp_path / "bad.pt2")
    assert not (tmp_path / "ran").exists()


def test_pickled_constants_are_refused(tmp_path):
    nets.export(nets.mlp(), torch.randn(4, 5), tmp_path / "good.pt2")
    with zipfile.ZipFile(tmp_path / "good.pt2", "a") as archive:
        archive.writestr("good/data/constants/opaque_obj_0", pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.raises(r2et.errors.InputError, match="pickled objects"):
        load_program(tmp_path / "good.pt2")
    assert not (tmp_path / "ran").exists()


def test_a_program_that_calls_something_else_is_refused(tmp_path):
    nets.export(nets.mlp(), torch.randn(4, 5), tmp_path / "good.pt2")
    with zipfile.ZipFile(tmp_path / "good.pt2") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("models/model.json")]
        graph = archive.read(name).replace(b"torch.ops.aten.relu.default", b"torch.hub.load")
    replaced(tmp_path / "good.pt2", tmp_path / "bad.pt2", "models/model.json", graph)
    with pytest.raises(r2et.errors.InputError, match="not an operator of torch"):
        load_program(tmp_path / "bad.pt2")
