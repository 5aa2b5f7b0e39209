"""`r2et audit` on programs and factories: the figures of the module in memory, one sentence for a mistake."""

import hashlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_model

import r2et
from tests.predictors import nets

QUICK = ("--budget", "fast", "--steps", 2, "--radii", "0.5", "-k", 2)
LIBRARY = {"budget": "fast", "steps": 2, "radii": (0.5,), "k": 2}
COLUMNS = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same models as programs and as weights, and their rows as a file."""
    made = tmp_path_factory.mktemp("any")
    torch.manual_seed(0)
    x = torch.randn(24, 5, dtype=torch.float64)
    frame = pd.DataFrame(x.numpy(), columns=COLUMNS)
    frame.insert(1, "label", np.where(x[:, 0].numpy() > 0, "yes", "no"))
    frame.to_csv(made / "rows.csv", index=False, float_format="%.17g")
    frame.to_parquet(made / "rows.parquet")
    for name, model in (("plain", nets.mlp()), ("other", nets.mlp())):
        save_model(model, str(made / f"{name}.safetensors"))
        nets.export(model, x.float(), made / f"{name}.pt2")
        torch.save(model, made / f"{name}.pt")
    exact = nets.in_float64()
    nets.export(exact, x, made / "exact.pt2")
    save_model(exact, str(made / "exact.safetensors"))
    return made


def inputs(folder, dtype=torch.float32):
    frame = pd.read_csv(folder / "rows.csv")
    return torch.from_numpy(frame[COLUMNS].to_numpy()).to(dtype), torch.tensor(
        (frame["label"] == "yes").to_numpy()
    ).long()


def in_memory(folder, name: str = "plain", make=nets.mlp, **options):
    from safetensors.torch import load_model

    model = make()
    load_model(model, str(folder / f"{name}.safetensors"))
    x, y = inputs(folder, next(model.parameters()).dtype)
    found = json.loads(json.dumps(r2et.audit(model, x, y, **LIBRARY, **options).to_dict()))
    # a module in memory knows no file
    assert found.pop("provenance")["sha256"] is None
    return found


FACTORY = ("tests.predictors.nets:mlp", "--weights", "{folder}/plain.safetensors")


@pytest.mark.parametrize("source", [("{folder}/plain.pt2",), FACTORY], ids=["program", "factory"])
@pytest.mark.parametrize("file", ["rows.csv", "rows.parquet"])
def test_the_audit_is_that_of_the_module_in_memory(run, folder, source, file):
    model = [part.format(folder=folder) for part in source]
    found = run("audit", *model, "--data", folder / file, "--target", "label", *QUICK, "--json").json()
    assert found.pop("model") == model[0]
    assert found.pop("data") == file
    origin = found.pop("provenance")
    assert origin["sha256"] == hashlib.sha256((folder / file).read_bytes()).hexdigest()
    assert (origin["data"], origin["file_rows"], origin["target"]) == (file, 24, "label")
    assert found == in_memory(folder)
    assert found["rows"] == 24


def test_the_order_of_classes_and_of_columns_is_taken_at_its_word(run, folder):
    data = (folder / "plain.pt2", "--data", folder / "rows.csv", "--target", "label", *QUICK, "--json")
    found = run("audit", *data).json()
    turned = run("audit", *data, "--classes", "yes,no").json()
    assert turned["accuracy"] == pytest.approx(1 - found["accuracy"])
    moved = run("audit", *data, "--columns", "e,d,c,b,a").json()
    assert moved["attacks"] != found["attacks"]
    assert run("audit", *data, "--columns", ",".join(COLUMNS)).json()["attacks"] == found["attacks"]


def test_a_program_in_float64_gets_its_rows_in_float64(run, folder):
    data = ("--data", folder / "rows.csv", "--target", "label", "--classes", "no,yes,perhaps")
    found = run("audit", folder / "exact.pt2", *data, *QUICK, "--json").json()
    del found["model"], found["data"], found["provenance"]
    assert found == in_memory(folder, "exact", nets.in_float64)


def test_before_and_after_of_one_factory(run, folder, tmp_path):
    first, second = (folder / f"{name}.safetensors" for name in ("plain", "other"))
    found = run(
        *(
            "audit",
            "tests.predictors.nets:mlp",
            "--weights",
            first,
            "--data",
            folder / "rows.csv",
            "--target",
            "label",
        ),
        *("--compare", "tests.predictors.nets:mlp", "--compare-weights", second, *QUICK, "--json"),
        *("--report", tmp_path / "both.html"),
    ).json()
    other = found.pop("compare")
    assert other["model"] == "tests.predictors.nets:mlp"
    assert other["attacks"] == in_memory(folder, "other")["attacks"] != found["attacks"]
    text = (tmp_path / "both.html").read_text()
    assert "plain" in text
    assert "other" in text


def test_factory_arguments(run, folder, tmp_path):
    torch.manual_seed(0)
    save_model(nets.Residual(hidden=3, activation="relu"), str(tmp_path / "net.safetensors"))
    source = ("tests.predictors.nets:Residual", "--weights", tmp_path / "net.safetensors")
    data = ("--data", folder / "rows.csv", "--target", "label", *QUICK, "--json")
    arguments = ("--factory-arg", "hidden=3", "--factory-arg", "activation=relu")
    found = run("audit", *source, *arguments, *data, "--compare", folder / "plain.pt2").json()
    assert found["rows"] == found["compare"]["rows"] == 24
    error = run("audit", *source, *data).error()
    assert "do not fit tests.predictors.nets:Residual()" in error


def test_a_model_with_attention(run, folder, tmp_path):
    """Its fused kernels cannot be differentiated twice; the command chooses the one that can."""
    torch.manual_seed(0)
    nets.export(nets.attention(), torch.randn(4, 5), tmp_path / "attention.pt2")
    data = ("--data", folder / "rows.csv", "--target", "label", "--limit", 4, *QUICK)
    assert run("audit", tmp_path / "attention.pt2", *data, "--json").json()["rows"] == 4


def test_a_registered_data_set(run, tmp_path):
    torch.manual_seed(0)
    model = r2et.models.MLP(30, 2)
    data = r2et.data.load("breast-cancer")
    x = data.test.x
    nets.export(model, x, tmp_path / "net.pt2")
    found = run(
        "attack", tmp_path / "net.pt2", "--data", "breast-cancer", "--attack", "er", "--steps", 2, "--json"
    )
    result = r2et.attacks.ERAttack(k=8, radius=1.0, steps=2)(model, x, domain=data.domain, seed=0)
    assert found.json()["attacks"][0]["precision"] == float(result.precision.mean())


BAD = {
    "pickle": (["{folder}/plain.pt"], ["pickle", "runs whatever code", "torch.export.save", "save_model"]),
    "no model": (["{folder}/none.pt2"], ["there is no model", ".pt2"]),
    "module": (["no_such:make"], ["'no_such'", "cannot be imported"]),
    "factory": (["tests.predictors.nets:mpl"], ["'mpl'", "did you mean 'mlp'?"]),
    "factory that needs arguments": (["torch.nn:Linear"], ["torch.nn:Linear()", "TypeError"]),
    "weights missing": (["tests.predictors.nets:mlp", "--weights", "none.safetensors"], ["no weights file"]),
    "weights of another": (
        ["tests.predictors.nets:Residual", "--weights", "{folder}/plain.safetensors"],
        ["do not fit", "missing", "unexpected"],
    ),
    "weights pickled": (["tests.predictors.nets:mlp", "--weights", "{folder}/plain.pt"], [".safetensors"]),
    "argument": ([*FACTORY, "--factory-arg", "hidden"], ["--factory-arg takes name=value"]),
    "text in a column": (
        ["{folder}/plain.pt2", "--data", "{folder}/text.csv"],
        ["do not hold numbers: job", "'cook'"],
    ),
    "holes": (["{folder}/plain.pt2", "--data", "{folder}/holes.csv"], ["missing (NaN)", "in b", "row 3"]),
    "too few columns": (
        ["{folder}/plain.pt2", "--columns", "a,b"],
        ["cannot take the 2 columns a, b", "--columns"],
    ),
    "a third class": (["{folder}/plain.pt2", "--data", "{folder}/three.csv"], ["2 classes", "3", "--classes"]),
    "an unnamed class": (["{folder}/plain.pt2", "--classes", "yes,maybe"], ["'no'", "'yes', 'maybe'"]),
    "k": (["{folder}/plain.pt2", "-k", "5"], ["k=5", "5 features"]),
    "without data": (["{folder}/plain.pt2", "--data", "iris"], ["'iris'"]),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_end_with_one_sentence(run, folder, name):
    options, parts = BAD[name]
    frame = pd.read_csv(folder / "rows.csv")
    frame.assign(job="cook").to_csv(folder / "text.csv", index=False)
    frame.assign(b=[np.nan if i == 3 else 1.0 for i in range(24)]).to_csv(folder / "holes.csv", index=False)
    frame.assign(label=["x", "y", "z"] * 8).to_csv(folder / "three.csv", index=False)
    given = [str(option).format(folder=folder) for option in options]
    data = [] if "--data" in given else ["--data", folder / "rows.csv"]
    error = run("audit", *given, *data, "--target", "label").error()
    for part in parts:
        assert part in error
    assert error.count("\n") <= 6, "a sentence, not a traceback"


def test_a_model_that_does_not_say_its_data(run, folder):
    assert "--data file.csv --target column" in run("audit", folder / "plain.pt2").error()


def test_the_current_folder_can_be_imported_from(run, folder, tmp_path, monkeypatch):
    (tmp_path / "shop_of_mine.py").write_text("from tests.predictors.nets import mlp as make\n")
    monkeypatch.chdir(tmp_path)
    data = ("--data", folder / "rows.csv", "--target", "label", *QUICK, "--json")
    weights = ("--weights", folder / "plain.safetensors")
    assert run("audit", "shop_of_mine:make", *weights, *data).json()["attacks"] == in_memory(folder)["attacks"]
    sys.modules.pop("shop_of_mine")
