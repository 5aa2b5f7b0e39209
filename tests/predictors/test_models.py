"""Any model from the text that names it."""

import joblib
import pytest
import torch

import r2et
from r2et.predictors import open_model
from tests.estimator.frames import QUICK, mixed
from tests.predictors import nets


def test_a_checkpoint(tmp_path):
    model = r2et.models.MLP(5, 2)
    r2et.save_model(model, tmp_path / "run", data="mine", k=3)
    opened = open_model(tmp_path / "run")
    assert (opened.kind, opened.name) == ("checkpoint", "run")
    assert opened.information == {"data": "mine", "k": 3}
    assert opened.estimator is None
    x = torch.randn(3, 5)
    assert torch.equal(opened.model(x), model(x))
    assert open_model(tmp_path / "run" / "checkpoint.json").name == "run"


def test_a_classifier(tmp_path):
    frame, y = mixed()
    fitted = r2et.StableClassifier(**QUICK).fit(frame, y)
    fitted.save(tmp_path / "fitted")
    opened = open_model(tmp_path / "fitted")
    assert opened.kind == "estimator"
    assert opened.dtype == torch.float64
    assert opened.origin is None
    assert (opened.estimator.predict(frame) == fitted.predict(frame)).all()


@pytest.mark.parametrize(("make", "dtype"), [(nets.mlp, torch.float32), (nets.in_float64, torch.float64)])
def test_a_program(tmp_path, make, dtype):
    model, x = make(), torch.randn(3, 5, dtype=dtype)
    nets.export(model, x, tmp_path / "net.pt2")
    opened = open_model(tmp_path / "net.pt2")
    assert (opened.kind, opened.name, opened.dtype) == ("program", "net", dtype)
    assert torch.equal(opened.model(x), model(x))


def test_a_factory():
    opened = open_model("tests.predictors.nets:Residual", arguments={"hidden": 3})
    assert (opened.kind, opened.name, opened.dtype) == ("factory", "tests.predictors.nets:Residual", torch.float32)
    assert opened.model.head.in_features == 3


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl", ".bin", ".joblib", ".ckpt"])
def test_a_pickle_is_refused_unread(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    joblib.dump({"a": 1}, path) if suffix == ".joblib" else torch.save(nets.mlp(), path)
    with pytest.raises(r2et.errors.InputError) as caught:
        open_model(path)
    message = str(caught.value)
    for word in (
        str(path),
        "pickle",
        "runs whatever code is in it",
        "torch.export.save",
        "save_model",
        "--weights",
    ):
        assert word in message


def test_what_is_not_a_model(tmp_path):
    with pytest.raises(r2et.errors.InputError, match=r"there is no model .*\.pt2.*package\.module:factory"):
        open_model(tmp_path / "nothing")
    (tmp_path / "net.onnx").write_bytes(b"")
    with pytest.raises(r2et.errors.InputError, match="is not a model that r2et can open"):
        open_model(tmp_path / "net.onnx")
    (tmp_path / "net.safetensors").write_bytes(b"")
    with pytest.raises(r2et.errors.InputError, match=r"holds weights.*package\.module:factory"):
        open_model(tmp_path / "net.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(r2et.errors.CheckpointError, match="there is no checkpoint"):
        open_model(tmp_path / "empty")


def test_weights_belong_to_factories(tmp_path):
    r2et.save_model(r2et.models.MLP(5, 2), tmp_path)
    with pytest.raises(r2et.errors.InputError, match="leave them out"):
        open_model(tmp_path, weights=tmp_path / "net.safetensors")


# --- what is in memory ----------------------------------------------------------------------------------------


def test_a_module_is_taken_as_it_is():
    model = nets.mlp().train()
    opened = open_model(model)
    assert (opened.kind, opened.name, opened.source) == ("module", type(model).__name__, type(model).__name__)
    assert opened.model is model
    assert model.training, "opening changes nothing"
    assert open_model(nets.in_float64()).dtype == torch.float64


def test_an_exported_program_in_memory():
    model, x = nets.in_float64(), torch.randn(3, 5, dtype=torch.float64)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    opened = open_model(exported)
    assert (opened.kind, opened.dtype) == ("program", torch.float64)
    assert torch.equal(opened.model(x), model(x))
    assert open_model(opened.model).kind == "program"


def test_a_fitted_estimator_in_memory_and_one_that_is_not():
    frame, y = mixed()
    fitted = r2et.StableClassifier(**QUICK).fit(frame, y)
    opened = open_model(fitted)
    assert (opened.kind, opened.name) == ("estimator", "StableClassifier")
    assert opened.estimator is fitted
    assert opened.model is fitted.model_
    with pytest.raises(r2et.errors.InputError, match="this StableClassifier is not fitted"):
        open_model(r2et.StableClassifier())


@pytest.mark.parametrize("options", [{"weights": "net.safetensors"}, {"arguments": {"hidden": 3}}])
def test_weights_and_arguments_are_for_factories(options):
    with pytest.raises(r2et.errors.InputError, match="weights and arguments belong to"):
        open_model(nets.mlp(), **options)
