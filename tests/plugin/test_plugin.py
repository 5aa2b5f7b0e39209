"""What another package brings is as good as what is built in: listed, run, trained, saved, loaded, benchmarked."""

import os
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path

import pytest
import torch

import r2et
from r2et.attacks import ATTACKS, ERAttack, WorstCase
from r2et.errors import CheckpointError, InputError
from r2et.explainers import EXPLAINERS, Gradient
from r2et.objectives import OBJECTIVES
from r2et.predictors import open_model
from r2et_bench import PLANS, BenchmarkPlan, Run, Store, Study
from r2et_bench.executors import Executor
from r2et_bench.paper_tables import make_table
from r2et_bench.results import load_results
from r2et_bench.worker import perform
from tests.estimator.frames import mixed
from tests.test_cli import Run as Command


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda *arguments: Command(capsys, *arguments)


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    """A folder with a small network on breast-cancer."""
    data = r2et.data.load("breast-cancer")
    model = r2et.models.MLP(30, 2, hidden=(8,))
    r2et.fit(model, data.train, data.validation, settings=r2et.training.Settings(epochs=3, accelerator="cpu"))
    folder = tmp_path_factory.mktemp("network")
    r2et.save_model(model, folder, data="breast-cancer", k=5)
    return folder


def search_path(site: Path) -> str:
    """Where a process of its own looks for packages: where this one does, and there."""
    return os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))


def python(code: str, variables: dict[str, str], site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Code in a process of its own, with a folder of installed packages."""
    environment = {**os.environ, **variables, "PYTHONPATH": search_path(site)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def words(text: str) -> set[str]:
    return set(text.replace(",", " ").replace(";", " ").replace("│", " ").split())


# --- installed --------------------------------------------------------------------------------------------------


def test_pip_installed_them_from_a_wheel(toys):
    (toy,) = metadata.distributions(name="r2et-toys", path=[str(toys)])
    assert toy.read_text("INSTALLER").strip() == "pip"
    assert "Generator: hatchling" in toy.read_text("WHEEL")
    points = {(point.group, point.name) for point in toy.entry_points}
    assert points == {
        ("r2et.attacks", "axis-steps"),
        ("r2et.objectives", "calm"),
        ("r2et.explainers", "sharpened"),
    }


@pytest.mark.parametrize("name", ["attack", "objective", "explainer"])
def test_a_toy_has_at_most_forty_lines(toys, name):
    assert len((toys / "r2et_toys" / f"{name}.py").read_text().splitlines()) <= 40


# --- listed -----------------------------------------------------------------------------------------------------


def test_without_the_package_nobody_knows_them(run):
    assert not {"axis-steps", "sharpened"} & words(run("attack", "--help").out)
    assert "unknown attack 'axis-steps'" in run("attack", "somewhere", "--attack", "axis-steps").error()


def test_they_appear_in_the_help_of_the_commands(toys):
    """As an installed command shows it, in a process of its own."""
    code = "import sys; from r2et.cli import main; main(sys.argv[1:])"
    done = python(code, {"COLUMNS": "80", "NO_COLOR": "1"}, toys, "attack", "--help")
    assert {"axis-steps", "sharpened", "worst-case", "gradient"} <= words(done.stdout)
    assert done.stderr == ""


def test_the_objective_is_among_the_methods_of_training(toys, run):
    assert {"calm", "r2et-sf"} <= words(run("train", "--help").out)


def test_help_of_the_whole_command_imports_neither_torch_nor_plug_ins(toys):
    code = (
        "import sys\nfrom r2et.cli import main\ntry: main(['--help'])\n"
        "finally: print({'torch', 'r2et_toys'} & set(sys.modules))"
    )
    assert python(code, {}, toys).stdout.strip().endswith("set()")


def test_their_names_are_known_and_given_back(toys):
    from r2et_toys.attack import AxisSteps
    from r2et_toys.explainer import Sharpened
    from r2et_toys.objective import Calm

    assert ATTACKS.find("axis-steps").thing is ATTACKS.find("r2et_toys.attack:AxisSteps").thing is AxisSteps
    assert ATTACKS.name_of(AxisSteps) == "axis-steps"
    assert EXPLAINERS.create("sharpened", power=3.0) == Sharpened(power=3.0)
    assert OBJECTIVES.find(Calm).defaults == {"weight": 0.5}


# --- run --------------------------------------------------------------------------------------------------------


def test_attack_and_explainer_run_in_an_audit(toys, network):
    from r2et_toys.explainer import Sharpened

    data, (model, _) = r2et.data.load("breast-cancer"), r2et.checkpoints.load_model(network)
    found = r2et.audit(
        model,
        data.test.x[:12],
        data.test.y[:12],
        k=5,
        radii=(0.5, 2.0),
        budget="fast",
        explainer=Sharpened(),
        attacks=["axis-steps"],
    )
    assert [row.attack for row in found.attacks] == ["NoiseAttack", "AxisSteps", "WorstCase"] * 2
    toy, worst = (
        [row.precision for row in found.attacks if row.attack == name] for name in ("AxisSteps", "WorstCase")
    )
    assert all(low <= high for low, high in zip(worst, toy, strict=True))
    assert found.settings.recipe == "WorstCase of WorstCase-2, AxisSteps"
    assert "Sharpened(" in found.settings.explainer
    # a power changes no ranking of magnitudes: the toy is judged as the gradient is
    x = data.test.x[:12]
    attack = ATTACKS.create("axis-steps", k=5, radius=2.0, explainer=Gradient())
    assert float(attack(model, x, radii=(0.5, 2.0))[1].precision.mean()) == pytest.approx(toy[1])


def test_they_run_in_the_commands(toys, run, network):
    options = ["--explainer", "sharpened", "--limit", "6", "--json"]
    (row,) = run("attack", network, "--attack", "axis-steps", "--steps", "4", *options).json()["attacks"]
    assert row["attack"] == "AxisSteps"
    assert row["steps"] == 4
    assert "Sharpened(" in row["settings"]
    audited = run("audit", network, "--attack", "axis-steps", "--budget", "fast", "--radii", "1", *options).json()
    assert [entry["attack"] for entry in audited["attacks"]] == ["NoiseAttack", "AxisSteps", "WorstCase"]
    every = run(
        "attack", network, "--radius", "1", "--steps", "2", "--budget", "fast", "--limit", "3", "--json"
    ).json()
    assert "AxisSteps" in {entry["attack"] for entry in every["attacks"]}


def test_a_class_that_nobody_registered_runs_by_its_path(run, network, tmp_path, monkeypatch):
    (tmp_path / "own_attack.py").write_text(
        "from r2et.attacks import NoiseAttack\nclass Mine(NoiseAttack): pass\n"
    )
    monkeypatch.chdir(tmp_path)
    found = run("attack", network, "--attack", "own_attack:Mine", "--limit", "4", "--json").json()
    assert [entry["attack"] for entry in found["attacks"]] == ["Mine"]


def test_what_a_plug_in_raises_is_its_own_fault(install, run, network):
    code = "from r2et.attacks import Attack\nclass Bad(Attack):\n    def run(self, task, judge, best): 1 / 0\n"
    install("bad-attack", code, {"r2et.attacks": {"bad": "bad_attack:Bad"}})
    error = run("attack", network, "--attack", "bad", "--limit", "4").error()
    assert "the code of 'bad_attack' raised ZeroDivisionError" in error


# --- train, save and load ---------------------------------------------------------------------------------------


def size_of_gradients(classifier: r2et.StableClassifier, frame) -> float:
    return float(Gradient()(classifier.model_, classifier.encode(frame)).square().sum(1).mean())


def test_the_objective_trains_a_classifier_and_is_saved_with_it(toys, tmp_path):
    from r2et_toys.explainer import Sharpened
    from r2et_toys.objective import Calm

    frame, labels = mixed(120)
    shared = {"k": 2, "epochs": 12, "random_state": 0}
    vanilla = r2et.StableClassifier(method="vanilla", **shared).fit(frame, labels)
    searched = r2et.StableClassifier(method="vanilla", objective="calm", **shared).fit(frame, labels)
    assert searched.candidates_["weight"].tolist() == [0.1, 1.0]
    assert searched.settings_["weight"] in (0.1, 1.0)
    strong = r2et.StableClassifier(method="calm", settings={"weight": 5.0}, **shared).fit(frame, labels)
    assert size_of_gradients(strong, frame) < 0.8 * size_of_gradients(vanilla, frame)

    own = Calm(weight=5.0, explainer=Sharpened(power=1.5))
    ready = r2et.StableClassifier(method="vanilla", objective=own, **shared).fit(frame, labels)
    for number, fitted in enumerate((searched, strong, ready)):
        fitted.save(tmp_path / str(number))
        loaded = r2et.StableClassifier.load(tmp_path / str(number))
        assert loaded.get_params() == fitted.get_params()
        assert (loaded.predict(frame) == fitted.predict(frame)).all()


def test_the_explainer_is_saved_in_a_checkpoint_and_used_by_the_commands(toys, run, tmp_path):
    from r2et_toys.explainer import Sharpened

    explainer = Sharpened(power=3.0)
    described = EXPLAINERS.describe(explainer)
    assert described == {"name": "sharpened", "reduce": "abs", "inputs": 1, "score": "log-odds", "power": 3.0}
    r2et.save_model(r2et.models.MLP(30, 2), tmp_path, data="breast-cancer", explainer=described)
    assert open_model(tmp_path).explainer == explainer
    (row,) = run("attack", tmp_path, "--attack", "noise", "--limit", "4", "--json").json()["attacks"]
    assert "Sharpened(reduce='abs', inputs=1, score='log-odds', power=3.0)" in row["settings"]


def test_a_checkpoint_of_a_package_that_is_not_installed_says_which_name_is_missing(tmp_path):
    r2et.save_model(r2et.models.MLP(30, 2), tmp_path, data="breast-cancer", explainer={"name": "sharpened"})
    with pytest.raises(CheckpointError, match="unknown explainer 'sharpened'"):
        open_model(tmp_path)


# --- the benchmark ----------------------------------------------------------------------------------------------


class Here(Executor):
    """In this process."""

    def run(self, jobs, done):
        for job in jobs:
            perform(job)
            done(job)


def test_they_have_a_cell_in_the_benchmark(toys, tmp_path, monkeypatch):
    plan = BenchmarkPlan(
        name="toys",
        data=("breast-cancer",),
        methods=("vanilla", "calm"),
        studies=(
            Study("prediction"),
            Study("attacks", {"rows": 8, "steps": 4, "mse": False, "also": ["axis-steps"]}),
            Study("explainers", {"rows": 3, "steps": 2, "also": ["sharpened"]}),
            Study("worst", {"rows": 3, "budget": "fast"}),
        ),
        schedule={"epochs": 2, "batch_size": 128},
        grid={"calm": {"weight": (0.1, 1.0)}},
        selection={"rows": 8, "steps": 4},
        seeds=1,
    )
    monkeypatch.setitem(PLANS, plan.name, plan)
    store = Store(tmp_path / "records", tmp_path / "work")
    assert Run(plan, store, Here())() == {"records": 2, "failed": 0}
    record = next(record for record in store.all("toys") if record.get("cell", {}).get("method") == "calm")
    assert record["cell"]["settings"]["weight"] in (0.1, 1.0)
    studies = {name: entry["values"] for name, entry in record["studies"].items()}
    assert 0 <= studies["attacks"]["AxisSteps"] <= 1
    assert 0 <= studies["explainers"]["sharpened"] <= 1
    rows = load_results(store, ["toys"]).of("breast-cancer")
    assert [row.title for row in rows] == ["Vanilla", "Calm"]
    assert Run(plan, store, Here())() == {"records": 2, "failed": 0}, "nothing is left to do"
    assert make_table("honest", load_results(store, ["toys"])).sections


# --- broken ones ------------------------------------------------------------------------------------------------

BROKEN = {
    "raises": ("1 / 0\n", "own = bad_plugin:Own", "ZeroDivisionError: division by zero"),
    "exits": ("import sys; sys.exit(3)\n", "own = bad_plugin:Own", "SystemExit: 3"),
    "has no such class": ("", "own = bad_plugin:Own", "Own"),
    "wrong type": (
        "Own = int\n",
        "own = bad_plugin:Own",
        "a complete subclass of r2et.attacks.attack:Attack",
    ),
    "incomplete": (
        "from r2et.attacks import Attack\nclass Own(Attack): pass\n",
        "own = bad_plugin:Own",
        "complete subclass",
    ),
    "name of a built-in one": (
        "from r2et.attacks import NoiseAttack\nclass Own(NoiseAttack): pass\n",
        "er = bad_plugin:Own",
        "'er' is the attack r2et.attacks.pgd:ERAttack already",
    ),
    "imports a name that is gone": ("from r2et.attacks import Gone\n", "own = bad_plugin:Own", "Gone"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plug_in_is_one_warning_and_the_rest_works(install, name):
    code, point, reason = BROKEN[name]
    key, _, value = point.partition(" = ")
    install("bad-plugin", code, {"r2et.attacks": {key: value}})
    with pytest.warns(UserWarning, match="left out") as caught:
        names = ATTACKS.names()
    (warning,) = [str(entry.message) for entry in caught]
    assert f"plug-in {key!r} (r2et.attacks) of bad-plugin 1.5 is left out" in warning
    assert reason in warning
    assert {"er", "worst-case"} <= set(names)
    assert "own" not in names
    assert ATTACKS.find("er").thing is ERAttack
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ATTACKS.names() == names, "it is told once"


def test_a_command_of_a_broken_package_leaves_the_others(install, monkeypatch, tmp_path):
    install("bad-command", "1 / 0\n", {"r2et.commands": {"own": "bad_command:app"}})
    done = python("from r2et.cli import main; main(['--version'])", {}, tmp_path / "site")
    assert done.stdout.strip() == f"r2et {r2et.__version__}"
    assert "plug-in 'own' (r2et.commands) of bad-command 1.5 is left out: ZeroDivisionError" in done.stderr


def test_members_of_the_worst_case_may_be_anybodys(toys, network):
    from r2et_toys.attack import AxisSteps

    model, x = r2et.checkpoints.load_model(network)[0], r2et.data.load("breast-cancer").test.x[:8]
    alone = AxisSteps(k=5, radius=2.0)(model, x, seed=0)
    for member in ("axis-steps", "r2et_toys.attack:AxisSteps", AxisSteps, AxisSteps(k=1, radius=9.0, keep="last")):
        worst = WorstCase(k=5, radius=2.0, members=[member])
        assert worst.recipe == "WorstCase of AxisSteps"
        assert torch.equal(worst(model, x, seed=0).precision, alone.precision)
    with pytest.raises(InputError, match="unknown attack 'axis-step': did you mean 'axis-steps'"):
        WorstCase(k=5, radius=2.0, members=["axis-step"])
