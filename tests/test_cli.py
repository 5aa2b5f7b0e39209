import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import r2et
from r2et.attacks import ATTACKS, worst_case
from r2et.cli import demonstration, main
from r2et.recipes import METHODS
from tests.little_effort import USUAL, quick_audits_here  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


class Run:
    """One call of the command line."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> None:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        self.code = caught.value.code or 0
        self.out, self.err = capsys.readouterr()

    def json(self):
        assert self.code == 0, self.err

        def refuse(text: str) -> None:
            raise AssertionError(f"{text} is not JSON")

        return json.loads(self.out, parse_constant=refuse)

    def error(self) -> str:
        """The one sentence on stderr that a user's mistake ends with."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        before, mark, sentence = self.err.partition("error: ")
        # how a file was read is said first
        assert mark, self.err
        assert before == "" or before.startswith("note: "), self.err
        assert "Traceback" not in self.err
        return mark + sentence


@pytest.fixture
def run(capsys):
    return lambda *arguments: Run(capsys, *arguments)


@pytest.fixture(scope="module")
def vanilla(tmp_path_factory) -> Path:
    """A folder with a vanilla network on breast-cancer, left alone by the tests."""
    folder = tmp_path_factory.mktemp("cli") / "vanilla"
    with pytest.raises(SystemExit):
        main(["train", "--method", "vanilla", "--epochs", "5", "-o", str(folder)])
    return folder


@pytest.fixture(scope="module")
def linear(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "linear"
    with pytest.raises(SystemExit):
        main(["train", "--method", "linear", "--epochs", "5", "-o", str(folder)])
    return folder


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "digits"
    with pytest.raises(SystemExit):
        main(["train", "--data", "digits", "--method", "linear", "--epochs", "2", "-o", str(folder)])
    return folder


def at_80_columns(text: str) -> None:
    assert text.strip()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    assert "…" not in text, "a cell was cut off"


# --- help and version -----------------------------------------------------------------------------------------


def test_version(run):
    found = run("--version")
    assert (found.code, found.out.strip()) == (0, f"r2et {r2et.__version__}")


COMMANDS = [
    ("demo",),
    ("data", "list"),
    ("data", "fetch"),
    ("train",),
    ("attack",),
    ("audit",),
    ("certify",),
    ("reasons",),
    ("check",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_has_an_example(run, command, flag):
    found = run(*command, flag)
    assert found.code == 0
    at_80_columns(found.out)
    assert f"Example: r2et {' '.join(command)}" in found.out
    assert "--json" in found.out


@pytest.mark.parametrize("command", [(), ("data",)], ids=["r2et", "data"])
def test_help_of_groups_lists_their_commands(run, command):
    found = run(*command, "--help")
    assert found.code == 0
    at_80_columns(found.out)
    for name in COMMANDS:
        if name[: len(command)] == command:
            assert f" {name[len(command)]} " in found.out


def test_help_of_train_names_every_method(run):
    text = run("train", "--help").out
    for name in METHODS:
        assert name in text.replace(",", " ").split(), name


def test_commands_that_draw_take_a_seed(run):
    for command in ("demo", "train", "attack", "audit", "certify"):
        assert "--seed" in run(command, "--help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell):
    environment = {**os.environ, "_R2ET_COMPLETE": f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['r2et']; from r2et.cli import main; main()"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_R2ET_COMPLETE=complete_" in done.stdout, done.stderr


def test_the_options_that_install_completion_are_there(run):
    text = run("--help").out
    assert "--install-completion" in text
    assert "--show-completion" in text


def test_usage_errors_exit_as_bad_input_does(run):
    assert run("trian").code == 2
    assert run("train").code == 2, "the output folder is missing"
    assert run("attack").code == 2
    assert run("train", "-o", "x", "--epochs", "many").code == 2


# --- data -----------------------------------------------------------------------------------------------------


def test_data_list(run):
    found = run("data", "list")
    assert found.code == 0
    at_80_columns(found.out)
    for name in ("adult", "bank", "breast-cancer", "compas", "digits"):
        assert name in found.out


def test_data_list_as_json(run):
    found = {entry["name"]: entry for entry in run("data", "list", "--json").json()}
    assert set(found) == set(r2et.data.names())
    assert found["breast-cancer"]["features"] == 30
    assert found["breast-cancer"]["k"] == 8
    assert (found["adult"]["features"], found["bank"]["features"], found["compas"]["features"]) == (28, 18, 16)


def test_data_fetch_offline(run):
    assert run("data", "fetch", "breast-cancer", "digits", "--json").json() == {"breast-cancer": [], "digits": []}
    found = run("data", "fetch", "breast-cancer")
    assert found.code == 0
    assert found.out == "breast-cancer: comes with scikit-learn\n"


def test_data_fetch_of_an_unknown_set(run):
    error = run("data", "fetch", "breast-canser").error()
    assert "'breast-canser'" in error
    assert "did you mean 'breast-cancer'?" in error


# --- train ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_trains_and_can_be_attacked(run, tmp_path, vanilla, name):
    start = ["--from", vanilla] if METHODS[name].retrains else []
    found = run("train", "--method", name, "--epochs", 1, *start, "-o", tmp_path / "run", "--json").json()
    assert found["method"] == name
    assert found["data"] == "breast-cancer"
    assert found["settings"] == METHODS[name].defaults
    assert found["epochs"] == 1
    assert 0 <= found["test_auc"] <= 1
    model, information = r2et.checkpoints.load_model(tmp_path / "run")
    test = r2et.data.load("breast-cancer").test
    assert r2et.metrics.auc(model, test.x, test.y) == found["test_auc"]
    assert information == {key: value for key, value in found.items() if key != "output"}
    attacked = run("attack", tmp_path / "run", "--attack", "er", "--steps", 2, "--limit", 20, "--json").json()
    assert [entry["attack"] for entry in attacked["attacks"]] == ["ERAttack"]


def test_train_says_what_it_did(run, tmp_path):
    found = run("train", "--method", "linear", "--epochs", 2, "-o", tmp_path / "run")
    assert found.code == 0
    assert found.out.startswith("Linear on breast-cancer: test AUC 0.")
    assert "of 2 (stopped by epochs)" in found.out
    assert str(tmp_path / "run") in found.out
    assert sorted(path.suffix for path in (tmp_path / "run").iterdir()) == [
        ".json",
        ".json",
        *[".safetensors"] * 2,
    ]


def test_train_says_when_the_threshold_was_not_reached(run, tmp_path):
    arguments = ("train", "--method", "linear", "--epochs", 1, "-o", tmp_path / "run", "--threshold", 1.5)
    assert run(*arguments, "--json").json()["passed"] is False
    assert "threshold" in run(*arguments).out


def test_settings_reach_the_method(run, tmp_path):
    options = ["--set", "gap=0.25", "--set", "curvature=0"]
    found = run("train", "--method", "r2et", *options, "--epochs", 1, "-o", tmp_path / "run", "--json").json()
    assert found["settings"] == {"gap": 0.25, "curvature": 0.0, "difference": 0.01}
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert "gap=0.25, curvature=0.0" in record["identity"]["objective"]


def test_the_same_seed_gives_the_same_model(run, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        run("train", "--epochs", 1, "--seed", seed, "-o", tmp_path / name, "--json").json()
    x = r2et.data.load("breast-cancer").test.x
    a, b, c = (r2et.checkpoints.load_model(tmp_path / name)[0](x) for name in "abc")
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_resume_continues_a_run(run, tmp_path):
    arguments = ("train", "--method", "r2et-sf", "--json", "-o")
    straight = run(*arguments, tmp_path / "straight", "--epochs", 4).json()
    run(*arguments, tmp_path / "parts", "--epochs", 2).json()
    parts = run(*arguments, tmp_path / "parts", "--epochs", 4, "--resume").json()
    assert {**parts, "output": None} == {**straight, "output": None}
    a, b = (r2et.checkpoints.load_model(tmp_path / name)[0].state_dict() for name in ("straight", "parts"))
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["--method", "vanilla"], ["--method", "sp"]),
        (["--method", "vanilla"], ["--method", "linear"]),
        (["--method", "vanilla"], ["--method", "r2et"]),
        (["--method", "vanilla"], ["--method", "wd"]),
        (["--method", "sp"], ["--method", "sp", "--set", "beta=5"]),
        (["--method", "r2et"], ["--method", "r2et", "--set", "gap=5"]),
        (["--method", "r2et"], ["--method", "r2et", "-k", "4"]),
        (["--method", "vanilla"], ["--method", "vanilla", "--lr", "0.5"]),
        (["--method", "vanilla"], ["--method", "vanilla", "--seed", "5"]),
        (["--method", "linear"], ["--method", "linear", "--data", "digits"]),
    ],
    ids=lambda options: " ".join(options),
)
def test_resume_refuses_another_run(run, tmp_path, first, second):
    folder = tmp_path / "run"
    run("train", *first, "--epochs", 1, "-o", folder, "--json").json()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    error = run("train", *second, "--epochs", 2, "-o", folder, "--resume").error()
    assert str(folder) in error
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


BAD_TRAIN = {
    "method": (["--method", "r2et-fs"], ["unknown method 'r2et-fs'", "did you mean 'r2et"]),
    "data": (["--data", "breast-canser"], ["'breast-canser'", "did you mean 'breast-cancer'?"]),
    "setting's name": (["--method", "r2et", "--set", "curvatur=1"], ["'curvatur'", "did you mean 'curvature'?"]),
    "setting without a value": (["--method", "r2et", "--set", "gap"], ["'gap'", "name=number"]),
    "setting's value": (["--method", "r2et", "--set", "gap=big"], ["'gap=big'"]),
    "setting of a method without any": (["--method", "vanilla", "--set", "gap=1"], ["'gap'", "Vanilla"]),
    "setting nan": (["--method", "r2et", "--set", "gap=nan"], ["nan"]),
    "beta": (["--method", "sp", "--set", "beta=0"], ["beta=0"]),
    "at radius": (["--method", "at", "--set", "radius=-1"], ["radius=-1"]),
    "weight decay": (["--method", "wd", "--set", "weight_decay=-1"], ["-1"]),
    "cl without --from": (["--method", "cl"], ["'cl' retrains", "--from"]),
    "--from nothing": (["--method", "cl", "--from", "nowhere"], ["'nowhere/checkpoint.json'"]),
    "epochs": (["--epochs", "0"], ["epochs=0"]),
    "lr": (["--lr", "-1"], ["lr=-1"]),
    "lr nan": (["--lr", "nan"], ["lr=nan"]),
    "batch size": (["--batch-size", "0"], ["batch_size=0"]),
    "patience": (["--patience", "0"], ["patience=0"]),
    "k = 0": (["-k", "0"], ["k=0"]),
    "k = n": (["-k", "30"], ["k=30"]),
    "k = n, vanilla": (["--method", "vanilla", "-k", "30"], ["k=30"]),
    "k < 0, vanilla": (["--method", "vanilla", "-k", "-1"], ["k=-1"]),
    "divergence": (["--method", "vanilla", "--lr", "9e17"], ["lower the learning rate"]),
}


@pytest.mark.parametrize("name", BAD_TRAIN)
def test_bad_input_of_train(run, tmp_path, monkeypatch, name):
    options, parts = BAD_TRAIN[name]
    monkeypatch.chdir(tmp_path)
    if "--epochs" not in options:
        options = [*options, "--epochs", "1"]
    error = run("train", *options, "-o", tmp_path / "run").error()
    for part in parts:
        assert part in error
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_retraining_a_model_for_other_data(run, tmp_path, digits):
    error = run("train", "--method", "cl", "--from", digits, "--epochs", 1, "-o", tmp_path / "run").error()
    assert "64" in error
    assert "30" in error
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file(run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    error = run("train", "--method", "linear", "--epochs", 1, "-o", tmp_path / "file").error()
    assert str(tmp_path / "file") in error
    assert (tmp_path / "file").read_text() == "in the way"


def test_an_interrupted_run_ends_with_its_own_code(run, tmp_path, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(r2et.recipes, "train_method", interrupt)
    found = run("train", "-o", tmp_path / "run")
    assert found.code == 130
    assert "Traceback" not in found.err


# --- attack and audit -----------------------------------------------------------------------------------------


def test_attack_prints_a_table(run, vanilla):
    found = run("attack", vanilla, "--steps", 3, "--limit", 15, "--budget", "fast")
    assert found.code == 0
    at_80_columns(found.out)
    assert "breast-cancer, 15 test inputs, radius 1" in found.out
    assert "ERAttack" in found.out
    assert "MSEAttack" in found.out
    assert "P@8" in found.out


def test_attack_gives_the_figures_of_the_library(run, vanilla):
    options = ["--attack", "er", "--radius", "0.7", "--steps", "20", "-k", "4", "--limit", "50", "--seed", "2"]
    (found,) = run("attack", vanilla, *options, "--json").json()["attacks"]
    model, _ = r2et.checkpoints.load_model(vanilla)
    data = r2et.data.load("breast-cancer")
    x, y = data.test.x[:50], data.test.y[:50]
    result = r2et.attacks.ERAttack(k=4, radius=0.7, steps=20)(model, x, domain=data.domain, seed=2)
    assert found["rows"] == 50
    assert found["precision"] == float(result.precision.mean())
    assert found["displaced"] == pytest.approx(4 * (1 - found["precision"]), abs=1e-5)
    assert found["distance"] == float(result.distance.mean())
    assert found["clean_auc"] == r2et.metrics.auc(model, x, y)
    assert found["adversarial_auc"] == r2et.metrics.auc(model, result.x, y)
    assert 0 < found["precision"] < 1


def test_attack_keeps_predictions_unless_told(run, vanilla):
    options = ["--attack", "mse", "--radius", "20", "--steps", "5", "--json"]
    (best,) = run("attack", vanilla, *options).json()["attacks"]
    (last,) = run("attack", vanilla, *options, "--keep", "last").json()["attacks"]
    assert best["sensitivity"] == 0
    assert last["sensitivity"] > 0


def test_attack_inside_the_domain(run, tmp_path, vanilla):
    run(
        "attack",
        vanilla,
        "--radius",
        30,
        "--steps",
        3,
        "--threat",
        "domain",
        "--keep",
        "last",
        "-o",
        tmp_path / "in.npz",
    )
    domain = r2et.data.load("breast-cancer").domain
    found = np.load(tmp_path / "in.npz")
    clean = found["x"]
    lower, upper = np.minimum(domain.lower.numpy(), clean), np.maximum(domain.upper.numpy(), clean)
    assert (found["er_x"] >= lower - 1e-5).all()
    assert (found["er_x"] <= upper + 1e-5).all()


def test_attack_writes_what_it_found(run, tmp_path, vanilla):
    path = tmp_path / "new" / "attack.npz"
    found = run("attack", vanilla, "--attack", "er", "--steps", 3, "--limit", 9, "-o", path, "--json").json()
    arrays = np.load(path)
    assert arrays["er_x"].shape == (9, 30)
    assert float(arrays["er_precision"].mean()) == pytest.approx(found["attacks"][0]["precision"])
    assert np.array_equal(arrays["x"], r2et.data.load("breast-cancer").test.x[:9].numpy())
    assert not any(name.startswith("mse") for name in arrays)


@pytest.mark.parametrize("name", ATTACKS.names())
def test_every_attack_by_name(run, vanilla, name):
    options = ["--attack", name, "--radius", "2", "--limit", "12", "--budget", "fast", "--seed", "3"]
    steps = [] if name == "worst-case" else ["--steps", "6"]
    found = run("attack", vanilla, *options, *steps, "--json").json()["attacks"]
    assert len(found) == 1
    assert found[0]["rows"] == 12
    assert 0 <= found[0]["precision"] <= 1
    assert found[0]["displaced"] == pytest.approx(8 * (1 - found[0]["precision"]), abs=1e-5)
    assert found[0]["sensitivity"] == 0
    assert found[0]["distance"] <= 2 + 1e-5
    assert (
        run("attack", vanilla, *options, *steps, "--json").json()["attacks"][0]["precision"]
        == found[0]["precision"]
    )


def test_all_attacks_leave_out_the_slow_one_and_worst_case_is_the_worst(run, vanilla, tmp_path, monkeypatch):
    for name, sizes in USUAL.items():
        monkeypatch.setitem(getattr(worst_case, name), "fast", sizes["fast"])
    path = tmp_path / "found.npz"
    found = run(
        "attack", vanilla, "--radius", "2", "--limit", "12", "--steps", "5", "--budget", "fast", "-o", path
    )
    at_80_columns(found.out)
    names = [name for name in ATTACKS.names() if not ATTACKS.find(name).thing.slow]
    arrays = np.load(path)
    lowest = min(float(arrays[f"{name}_precision"].mean()) for name in names)
    assert float(arrays["worst-case_precision"].mean()) == lowest < 1


def test_all_attacks_in_another_norm_leave_out_what_has_none(run, vanilla):
    found = run(
        "attack", vanilla, "--norm", "linf", "--radius", "0.1", "--limit", "5", "--steps", "3", "--json"
    ).json()
    assert {entry["attack"] for entry in found["attacks"]} == {
        "NoiseAttack",
        "ERAttack",
        "MSEAttack",
        "ConstrainedAttack",
        "BoundaryAttack",
        "NextFeatureAttack",
        "RandomSearchAttack",
    }


def test_attack_on_a_single_input(run, vanilla):
    found = run("attack", vanilla, "--steps", 2, "--limit", 1, "--budget", "fast", "--json").json()
    assert [entry["rows"] for entry in found["attacks"]] == [1] * 9


def test_audit_of_a_linear_model(run, linear):
    found = run("audit", linear, "--budget", "fast", "--steps", 3, "--limit", 20, "--radii", "0.1,2")
    assert found.code == 0
    at_80_columns(found.out)
    text = " ".join(found.out.split())
    assert "No attack changed any of the top 8 features of any of the 20 inputs, up to radius 2." in text


def test_audit_as_json_is_the_library_s(run, vanilla):
    found = run(
        "audit", vanilla, "--steps", 5, "--limit", 30, "--radii", "0.5, 1.5", "-k", 5, "--budget", "fast", "--json"
    ).json()
    loaded = r2et.data.load("breast-cancer")
    expected = r2et.audit(
        r2et.checkpoints.load_model(vanilla)[0],
        loaded.test.x[:30],
        loaded.test.y[:30],
        domain=loaded.domain,
        k=5,
        radii=(0.5, 1.5),
        steps=5,
        budget="fast",
    ).to_dict()
    assert found.pop("data") == "breast-cancer"
    assert found.pop("model") == str(vanilla)
    made, same = found.pop("provenance"), expected.pop("provenance")
    assert (made["model"], made["data"]) == ("vanilla", "breast-cancer")
    known = ("model", "data", "drawn", "target", "file_rows")
    assert {**made, **dict.fromkeys(known)} == {**same, **dict.fromkeys(known)}
    assert found == expected


def test_audit_of_the_vanilla_model_fits_80_columns(run, vanilla):
    found = run("audit", vanilla, "--steps", 5, "--limit", 30, "--radii", "0.25,5", "--budget", "fast")
    assert found.code == 0
    at_80_columns(found.out)


def test_k_is_the_one_of_training(run, tmp_path):
    run("train", "--method", "linear", "--epochs", 1, "-k", 3, "-o", tmp_path / "run", "--json").json()
    found = run("attack", tmp_path / "run", "--steps", 1, "--limit", 9, "--json").json()
    assert [entry["k"] for entry in found["attacks"]] == [3] * 9
    assert (
        run("audit", tmp_path / "run", "--budget", "fast", "--steps", 1, "--limit", 9, "--json").json()["k"] == 3
    )


BAD_MODEL_COMMANDS = {
    "attack's name": ("attack", ["--attack", "err"], ["unknown attack 'err'", "did you mean 'er'?"]),
    "keep": ("attack", ["--keep", "lats"], ["'lats'", "did you mean 'last'?"]),
    "attack's radius 0": ("attack", ["--radius", "0"], ["radius=0"]),
    "attack's radius negative": ("attack", ["--radius", "-2"], ["radius=-2"]),
    "attack's radius nan": ("attack", ["--radius", "nan"], ["radius=nan"]),
    "attack's steps": ("attack", ["--steps", "0"], ["steps", "0"]),
    "attack's k too large": ("attack", ["-k", "30"], ["k=30", "30 features"]),
    "attack's k = 0": ("attack", ["-k", "0"], ["k=0"]),
    "attack's k negative": ("attack", ["-k", "-3"], ["k=-3"]),
    "attack's limit": ("attack", ["--limit", "0"], ["--limit", "0"]),
    "attack's data": ("attack", ["--data", "digits"], ["'digits'", "64", "30"]),
    "attack's unknown data": ("attack", ["--data", "digit"], ["'digit'", "did you mean 'digits'?"]),
    "audit's radii": ("audit", ["--radii", "0.1,wide"], ["--radii", "'0.1,wide'"]),
    "audit's empty radii": ("audit", ["--radii", ""], ["--radii", "''"]),
    "audit's radius 0": ("audit", ["--radii", "0.1,0"], ["radius=0"]),
    "audit's radius nan": ("audit", ["--radii", "nan"], ["radius=nan"]),
    "audit's steps": ("audit", ["--steps", "0"], ["steps", "0"]),
    "audit's k too large": ("audit", ["-k", "31"], ["k=31"]),
    "audit's k = 0": ("audit", ["-k", "0"], ["k=0"]),
    "audit's limit": ("audit", ["--limit", "-1"], ["--limit", "-1"]),
    "audit's data": ("audit", ["--data", "digits"], ["'digits'", "64", "30"]),
}


@pytest.mark.parametrize("name", BAD_MODEL_COMMANDS)
def test_bad_input_of_attack_and_audit(run, tmp_path, vanilla, name):
    command, options, parts = BAD_MODEL_COMMANDS[name]
    if "--steps" not in options:
        options = [*options, "--steps", "1"]
    output = ["-o", tmp_path / "out.npz"] if command == "attack" else []
    error = run(command, vanilla, *options, *output).error()
    for part in parts:
        assert part in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["attack", "audit"])
class TestBadCheckpoints:
    def test_missing(self, run, tmp_path, command):
        assert str(tmp_path / "nothing") in run(command, tmp_path / "nothing").error()
        assert list(tmp_path.iterdir()) == []

    def test_truncated(self, run, tmp_path, vanilla, command):
        shutil.copytree(vanilla, tmp_path / "run")
        (path,) = (tmp_path / "run").glob("checkpoint-*.safetensors")
        path.write_bytes(path.read_bytes()[:-10])
        error = run(command, tmp_path / "run").error()
        assert str(path) in error
        assert "truncated" in error

    def test_foreign(self, run, tmp_path, command):
        (tmp_path / "checkpoint.json").write_text('{"weights": [1, 2]}')
        assert "is not an r2et checkpoint" in run(command, tmp_path).error()

    def test_a_file_of_something_else(self, run, tmp_path, command):
        torch.save({"a": torch.ones(1)}, tmp_path / "model.pt")
        assert str(tmp_path / "model.pt") in run(command, tmp_path / "model.pt").error()

    def test_without_a_data_set(self, run, tmp_path, command):
        r2et.save_model(r2et.models.Linear(30, 2), tmp_path)
        error = run(command, tmp_path, "--limit", 5).error()
        assert "--data NAME" in error
        assert run(command, tmp_path, "--data", "breast-cancer", "--limit", 40, "--steps", 1).code == 0


def test_an_attack_output_that_cannot_be_written(run, tmp_path, vanilla):
    (tmp_path / "file").write_text("in the way")
    error = run("attack", vanilla, "--steps", 1, "--limit", 20, "-o", tmp_path / "file" / "out.npz").error()
    assert "out.npz" in error


# --- demo -----------------------------------------------------------------------------------------------------


def test_demo(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "EPOCHS", 2)
    monkeypatch.setattr(demonstration, "STEPS", 3)
    found = run("demo", "-o", tmp_path / "demo")
    assert found.code == 0
    at_80_columns(found.out.replace(str(tmp_path), ""))
    written = json.loads((tmp_path / "demo" / "demo.json").read_text())
    assert written["reading"] in found.out
    for row in written["models"]:
        (line,) = [
            line for line in found.out.splitlines() if f" {row['title']} " in line and f"{row['auc']:.4f}" in line
        ]
        assert f"{100 * row['precision']['ERAttack']:.1f}" in line
        assert f"{100 * row['precision']['MSEAttack']:.1f}" in line
        assert f"{row['thickness']:.4f}" in line
        assert f"{row['displaced']:.2f} of 8" in line
        assert (tmp_path / "demo" / row["method"] / "checkpoint.json").exists()
    for column in ("AUC", "P@8 ER", "P@8 MSE", "thickness", "displaced", "time"):
        assert column in found.out


def test_demo_as_json(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "EPOCHS", 1)
    monkeypatch.setattr(demonstration, "STEPS", 1)
    found = run("demo", "-o", tmp_path / "demo", "--seed", 7, "--json").json()
    assert found == json.loads((tmp_path / "demo" / "demo.json").read_text())
    assert found["settings"]["seed"] == 7


def test_demo_into_a_file(run, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert str(tmp_path / "file") in run("demo", "-o", tmp_path / "file").error()
    assert (tmp_path / "file").read_text() == "in the way"
