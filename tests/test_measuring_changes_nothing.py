"""Measuring a model leaves it, its inputs and the random states as they were, and measures evaluation mode."""

import contextlib
import copy
import dataclasses
import importlib
import inspect
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from captum.attr import GradientShap, Saliency
from torch import Tensor, nn

import r2et
from r2et import attacks, certificates, enclosure, metrics, objectives, stability, validate
from r2et.errors import ModelError
from r2et.integrations import penalty
from r2et.numerics.preflight import measuring
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture

N, FEATURES, K = 12, 5, 2


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def net() -> nn.Sequential:
    """BatchNorm and Dropout in training mode beside layers in evaluation mode, and gradients from elsewhere."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 2)]
        model = nn.Sequential(*layers).double().train()
        model(torch.randn(64, FEATURES, dtype=torch.float64))
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
    model[0].eval()
    model[2].eval()
    model[4].weight.requires_grad_(False)
    return model


def rows() -> tuple[Tensor, Tensor]:
    x = torch.randn(N, FEATURES, generator=generator(), dtype=torch.float64).requires_grad_()
    x.grad = torch.ones_like(x)
    return x, torch.arange(N) % 2


Call = Callable[[nn.Module, Tensor, Tensor], Any]


def _explainer(explainer: Any) -> Call:
    return lambda model, x, y: explainer(model, x)


def _attack(attack: attacks.Attack) -> Call:
    return lambda model, x, y: attack(model, x)


ATTACKS = {
    name: getattr(attacks, name)(k=K, radius=0.3, **options)
    for name, options in {
        "BoundaryAttack": {"steps": 2},
        "ConstrainedAttack": {"steps": 2},
        "ERAttack": {"steps": 2},
        "MSEAttack": {"steps": 2},
        "MinimalFlip": {"steps": 1, "pairs": 1, "halvings": 1},
        "NextFeatureAttack": {"steps": 2, "restarts": 2, "hops": 1, "hop_restarts": 1},
        "NoiseAttack": {"steps": 2},
        "RandomSearchAttack": {"steps": 2, "rounds": 1},
        "TrustRegion": {"steps": 2},
        "WorstCase": {"budget": "fast"},
    }.items()
}
COLUMNS = r2et.Columns(
    tuple(f"column {i}" for i in range(FEATURES)),
    tuple((i,) for i in range(FEATURES)),
    ("number",) * FEATURES,
    ((),) * FEATURES,
)
EXPLAINERS = {
    "Activation": r2et.explainers.Activation(layer="2"),
    "ColumnEffects": r2et.explainers.ColumnEffects(columns=COLUMNS),
    "Contributions": r2et.explainers.Contributions(
        columns=COLUMNS, background=r2et.explainers.Background(((0.0,) * FEATURES, (1.0,) * FEATURES)), pairs=1
    ),
    "FromCaptum": r2et.explainers.FromCaptum(method=Saliency),
    "Gradient": r2et.explainers.Gradient(),
    "GradientTimesInput": r2et.explainers.GradientTimesInput(),
    "IntegratedGradients": r2et.explainers.IntegratedGradients(points=4),
    "SmoothGrad": r2et.explainers.SmoothGrad(samples=4),
}
NEIGHBOURS = {
    "AdversarialNeighbours": r2et.stability.AdversarialNeighbours(ATTACKS["ERAttack"]),
    "GaussianNeighbours": r2et.stability.GaussianNeighbours(0.1),
    "UniformNeighbours": r2et.stability.UniformNeighbours(0.1),
}


def _path(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    near = r2et.stability.GaussianNeighbours()
    found = stability.path_explanations(
        model,
        x,
        y,
        explainer=r2et.explainers.Gradient(),
        neighbours=near,
        samples=2,
        steps=2,
        generator=generator(),
        chunk_size=None,
    )
    return [part.detach() for part in found]


def _prepared(attack: r2et.attacks.Attack, model: nn.Module, x: Tensor) -> r2et.attacks.AttackResult:
    with measuring(model, x):
        return attack.attack(r2et.attacks.Task.prepare(attack, model, x))


class First(nn.Module):
    """The first logit of a model, as one that predicts a number."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x)
        return logits[:, :1]


#: by name, as in the list of all public callables below; what two of them return can be compared
CALLS: dict[str, Call] = {
    **{f"{name}.__call__": _explainer(explainer) for name, explainer in EXPLAINERS.items()},
    **{f"{name}.__call__": _attack(attack) for name, attack in ATTACKS.items()},
    **{f"{name}.attack": lambda model, x, y, a=attack: _prepared(a, model, x) for name, attack in ATTACKS.items()},
    **{
        f"{name}.draw": lambda model, x, y, n=near: n.draw(model, x.detach(), 2, generator())
        for name, near in NEIGHBOURS.items()
    },
    "thickness": lambda model, x, y: r2et.thickness(model, x, K, samples=2, steps=2),
    "pairwise_thickness": lambda model, x, y: r2et.stability.pairwise_thickness(
        model, x, 0, 1, samples=2, steps=2
    ),
    "thickness_bounds": lambda model, x, y: r2et.thickness_bounds(model, x, K, 0.1, samples=2),
    "path_explanations": _path,
    "certify": lambda model, x, y: r2et.certify(model, x, K),
    "bracket": lambda model, x, y: r2et.bracket(model, x, K, radii=[0.3], attack="boundary").to_dict(),
    "first_order": lambda model, x, y: certificates.first_order(model, x, K),
    "noisy_counts": lambda model, x, y: certificates.noisy_counts(model, x, K, samples=10),
    "statistical_stability": lambda model, x, y: certificates.statistical_stability(
        model, x, K, margin=0.1, samples=4
    ),
    "auc": lambda model, x, y: metrics.auc(model, x, y),
    "r2": lambda model, x, y: metrics.r2(First(model), x, x.detach().flatten(1)[:, 0]),
    "mae": lambda model, x, y: metrics.mae(First(model), x, x.detach().flatten(1)[:, 0]),
    "quality": lambda model, x, y: metrics.quality(model, x, y),
    "adversarial_auc": lambda model, x, y: metrics.adversarial_auc(model, ATTACKS["ERAttack"](model, x), y),
    "comprehensiveness": lambda model, x, y: metrics.comprehensiveness(model, x),
    "dffot": lambda model, x, y: metrics.dffot(model, x),
    "sufficiency": lambda model, x, y: metrics.sufficiency(model, x),
    "faithfulness": lambda model, x, y: metrics.faithfulness(model, x),
    "audit": lambda model, x, y: r2et.audit(model, x, y, k=K, radii=[0.3], steps=2, budget="fast").to_dict(),
    "piecewise_linear": lambda model, x, y: validate.piecewise_linear(model, x),
    "extract": lambda model, x, y: enclosure.extract(model, x.shape[1:]).base,
    # further ways through the same functions
    "certify, by smoothing": lambda model, x, y: r2et.certify(
        model, x, K, method=certificates.Smoothing(samples=10)
    ),
    "certify, first order": lambda model, x, y: r2et.certify(model, x, K, method="first-order"),
    "thickness_bounds, proven": lambda model, x, y: r2et.thickness_bounds(
        model, x, K, 0.1, explainer=r2et.explainers.Gradient()
    ),
    "Gradient, to be differentiated": lambda model, x, y: r2et.explainers.Gradient()(
        model, x, create_graph=True
    ).detach(),
    "FromCaptum, with noise": lambda model, x, y: r2et.explainers.FromCaptum(
        method=GradientShap, options={"baselines": torch.zeros(2, FEATURES, dtype=torch.float64)}
    )(model, x),
}
#: what these return is about the mode itself
MODES: dict[str, Call] = {
    "check": lambda model, x, y: validate.check(model, x, k=K),
    "smooth": lambda model, x, y: validate.smooth(model),
}
#: they take the model as training has it
TRAINING = {
    *("fit", "Trainer", "FitResult", "Retraining", "save_model", "penalty", "OpenedModel", "Subject"),
    *(f"{name}.{method}" for name in objectives.__all__ for method in ("__call__", "evaluate")),
}
#: parts of the calls above that training uses too, draws that `draw` puts together, and `load` around its network
PARTS = (
    *("attribute", "explained", "gradient", "average_gradient", "each", "ExplainedBatch", "Task", "prepare"),
    *("restore", "batch", "measured"),
)


def _takes_a_model(thing: Callable[..., Any]) -> bool:
    try:
        return "model" in inspect.signature(thing).parameters
    except ValueError:  # exceptions have no signature
        return False


def public_callables_with_a_model() -> set[str]:
    found = set()
    modules = [
        importlib.import_module(f"r2et.{name}") for name in r2et.__all__ if inspect.ismodule(getattr(r2et, name))
    ]
    for module in (r2et, *modules):
        listed = getattr(module, "__all__", None)
        for name in listed or [name for name in vars(module) if not name.startswith("_")]:
            thing = getattr(module, name)
            origin = str(getattr(thing, "__module__", ""))
            own = origin.startswith("r2et") if listed else origin == module.__name__
            if not own or inspect.isabstract(thing):
                continue
            methods = inspect.getmembers(thing, callable) if inspect.isclass(thing) else []
            public = [(key, value) for key, value in methods if key == "__call__" or not key.startswith("_")]
            for called, value in ((name, thing), *((f"{name}.{key}", value) for key, value in public)):
                if callable(value) and _takes_a_model(value):
                    found.add(called)
    return found


def test_every_public_callable_that_takes_a_model_is_in_a_table():
    everything = public_callables_with_a_model()
    known = {*CALLS, *MODES, *TRAINING}
    missing = {name for name in everything - known if name.rsplit(".", 1)[-1] not in PARTS}
    assert not missing
    assert len(everything) > 50, "the list of callables is empty or nearly so"


def state(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Everything that must not change."""
    parameters = dict(model.named_parameters())
    return {
        "weights and buffers": {name: value.clone() for name, value in model.state_dict().items()},
        "modes": [layer.training for layer in model.modules()],
        "hooks": [(*layer._forward_hooks, *layer._forward_pre_hooks) for layer in model.modules()],
        "requires_grad": [x.requires_grad, *(value.requires_grad for value in parameters.values())],
        "grad": [None if t.grad is None else t.grad.clone() for t in (x, *parameters.values())],
        "x": x.detach().clone(),
        "y": y.clone(),
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=False),
        "random": random.getstate(),
    }


def same(a: Any, b: Any) -> bool:
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and same(vars(a), vars(b))
    if isinstance(a, Tensor):
        return torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach()))
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or a is b


def changes(call: Call, model: nn.Module, x: Tensor, y: Tensor) -> tuple[set[str], Any]:
    before = state(model, x, y)
    result = call(model, x, y)
    after = state(model, x, y)
    return {name for name in before if not same(before[name], after[name])}, result


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_changed_and_evaluation_mode_is_measured(name):
    (x, y), model = rows(), net()
    changed, result = changes(CALLS[name], model, x, y)
    assert not changed
    expected = CALLS[name](net().eval(), x, y)
    assert same(result, expected)


@pytest.mark.parametrize("kind", ["StableClassifier", "StableRegressor"])
@pytest.mark.parametrize("network", ["mlp", "additive"])
def test_reasons_change_neither_the_estimator_nor_the_rows_nor_random_states(kind, network, tmp_path):
    (x, y), frame = rows(), pd.DataFrame(rows()[0].detach().numpy(), columns=list("abcde"))
    options = {"k": K, "network": network, "settings": {}, "hidden": (4,), "epochs": 1, "random_state": 0}
    fitted = getattr(r2et, kind)(**options).fit(frame, y.numpy())
    fitted.save(tmp_path / "before")
    table = frame.copy()

    def told(model: nn.Module, x: Tensor, y: Tensor) -> pd.DataFrame:
        return fitted.reasons(frame, 2, plausible="auto")

    changed, first = changes(told, fitted.model_, x, y)
    assert not changed
    pd.testing.assert_frame_equal(told(fitted.model_, x, y), first)
    pd.testing.assert_frame_equal(frame, table)
    fitted.save(tmp_path / "after")
    for path in (tmp_path / "before").iterdir():
        assert path.read_bytes() == (tmp_path / "after" / path.name).read_bytes()


@pytest.mark.parametrize("name", MODES)
def test_a_look_at_the_mode_changes_nothing(name):
    assert not changes(MODES[name], net(), *rows())[0]


def test_the_comparison_sees_what_a_forward_pass_in_training_mode_changes():
    def careless(model: nn.Module, x: Tensor, y: Tensor) -> None:
        model(x.data.add_(1)).sum().backward()
        model.eval()
        random.random()
        np.random.rand()

    changed = changes(careless, net(), *rows())[0]
    assert changed == {"weights and buffers", "modes", "grad", "x", "torch", "numpy", "random"}


OBJECTIVES = {
    name: getattr(objectives, name)(**options)
    for name, options in {
        "R2ET": {"k": K},
        "SSR": {},
        "AdversarialTraining": {"k": K},
        "CertifiedRadius": {"k": K},
        "CrossEntropy": {},
        "DirectThickness": {"k": K},
        "EstimatedHessian": {},
        "ExactHessian": {},
    }.items()
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_changes_neither_inputs_nor_modes_nor_random_states(name):
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 2)).double().train()
    assert not changes(lambda m, x, y: OBJECTIVES[name](m, x, y, generator=generator()), model, *rows())[0]


def test_an_objective_sees_training_mode():
    model = net().train()
    before = model[1].running_mean.clone()
    objectives.CrossEntropy()(model, *rows())
    assert not torch.equal(model[1].running_mean, before)


def test_a_penalty_leaves_batch_statistics_alone():
    model = net().train()
    assert not changes(lambda m, x, y: penalty(OBJECTIVES["R2ET"], m, x, generator=generator()), model, *rows())[0]


# --- modes ------------------------------------------------------------------------------------------------------


class Watching(nn.Module):
    """Remembers the modes it ran in, slowly enough for threads to overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(self.training)
        time.sleep(0.0005)
        return x


def in_threads(*work: Callable[[], Any]) -> list[Any]:
    """What each of them returns, at the same time."""
    found: list[Any] = [None] * len(work)

    def one(number: int) -> None:
        try:
            found[number] = work[number]()
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_no_thread_sees_training_mode_and_the_last_one_restores_it():
    watching = Watching()
    model = nn.Sequential(*net(), watching).train()
    model[0].eval()
    modes = [layer.training for layer in model.modules()]
    x = rows()[0].detach()
    # one of the threads measures a part that it shares with the others
    part = nn.Sequential(model[4], watching)
    hidden = torch.zeros(N, 8, dtype=torch.float64)
    jobs = [lambda: r2et.explainers.Gradient()(model, x)] * 3 + [lambda: r2et.explainers.Gradient()(part, hidden)]
    for _ in range(5):
        found = in_threads(*jobs)
        assert all(torch.equal(one, found[0]) for one in found[:3])
    assert len(watching.seen) >= 5 * len(jobs)
    assert not any(watching.seen)
    assert [layer.training for layer in model.modules()] == modes


def test_a_thread_that_leaves_first_does_not_take_evaluation_mode_away():
    from r2et.numerics.modes import evaluating

    model, inside, left = net(), threading.Event(), threading.Event()
    modes = [layer.training for layer in model.modules()]

    def first() -> None:
        with evaluating(model):
            inside.wait(5)
        left.set()

    def second() -> list[bool]:
        with evaluating(model):
            inside.set()
            left.wait(5)
            return [layer.training for layer in model.modules()]

    assert not any(in_threads(first, second)[1])
    assert [layer.training for layer in model.modules()] == modes


def test_threads_do_not_count_each_other_s_passes():
    model, x = nn.Sequential(*net(), Watching()).eval(), rows()[0].detach()
    explainer = r2et.explainers.Activation(layer="2")
    alone = explainer(model, x)
    found = in_threads(*[lambda: explainer(model, x)] * 4, *[lambda: validate.piecewise_linear(model, x)] * 2)
    assert all(isinstance(one, Tensor) and torch.equal(one, alone) for one in found[:4])
    assert found[4:] == [False, False]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_modes_come_back_after_an_error(error):
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Failing(r2et.explainers.Gradient):
        def attribute(self, *args: Any, **options: Any) -> Tensor:
            raise error

    def call(model: nn.Module, x: Tensor, y: Tensor) -> None:
        with pytest.raises(error):
            Failing()(model, x)

    assert not changes(call, net(), *rows())[0]


def test_a_smooth_copy_of_a_model_keeps_the_mode_of_what_is_inside():
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(FEATURES, 2).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(torch.relu(x)) + (torch.randn(1, 2) if self.training else 0)

    smooth = validate.smooth(Noisy().train())
    r2et.explainers.Gradient()(smooth, rows()[0])
    assert smooth.training
    assert smooth.model.training


def test_an_exported_program_which_has_no_modes_is_explained():
    model, x = net().eval(), rows()[0].detach()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()
    assert torch.allclose(r2et.explainers.Gradient()(program, x), r2et.explainers.Gradient()(model, x))
    assert all(layer.training for layer in program.modules())


def test_buffers_that_a_forward_pass_writes_in_evaluation_mode_come_back():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(FEATURES, 2).double()
            self.register_buffer("passes", torch.zeros(()))
            self.register_buffer("last", torch.zeros(1, 2))

        def forward(self, x: Tensor) -> Tensor:
            self.passes += 1
            self.last = self.layer(x)
            return self.last

    assert not changes(CALLS["thickness"], Counting(), *rows())[0]


def regularised(layer: nn.Module) -> nn.Sequential:
    """A net in training mode with one layer whose mode matters, behind its hidden layer."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), layer, nn.Linear(8, 2)).double().train()


def test_dropout_in_training_mode_does_not_decide_a_result():
    (x, _), attack = rows(), attacks.ERAttack(k=K, radius=0.3, steps=5)
    model = regularised(nn.Dropout(0.5))
    found = [attack(model, x) for _ in range(2)]
    found.append(attack(regularised(nn.Dropout(0.5)).eval(), x))
    assert all(torch.equal(result.precision, found[0].precision) for result in found)
    assert all(torch.equal(result.x, found[0].x) for result in found)


@pytest.mark.parametrize("steps", [1, 10])
def test_an_attack_of_any_length_leaves_batch_statistics_alone(steps):
    # several values a channel: in training mode a row alone is no error then
    norm = nn.BatchNorm1d(2)
    model = regularised(nn.Sequential(nn.Unflatten(1, (2, 4)), norm, nn.Flatten()))
    attacks.ERAttack(k=K, radius=0.3, steps=steps)(model, rows()[0])
    assert norm.num_batches_tracked == 0
    assert not norm.running_mean.any()
    assert norm.training


def test_thickness_without_a_generator_draws_what_torch_would_and_leaves_it_there():
    (x, _), model = rows(), net()

    def gap(drawn: torch.Generator | None = None) -> Tensor:
        return r2et.thickness(model, x, K, variant="gap", samples=2, steps=2, generator=drawn)

    torch.manual_seed(3)
    first = gap()
    assert torch.equal(first, gap())
    assert torch.equal(first, gap(torch.Generator().manual_seed(3)))
    torch.manual_seed(4)
    assert not torch.equal(first, gap())


# --- bad models -------------------------------------------------------------------------------------------------


class Bad(nn.Module):
    """A net whose forward goes through a function first."""

    def __init__(self, function: Callable[[Tensor], Any], layer: nn.Module | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layer = layer or nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 2))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.function(x))


def _add_in_place(x: Tensor) -> Tensor:
    x += 1
    return x


def _add_behind_autograd(x: Tensor) -> Tensor:
    x.data.add_(1)
    return x


def _fails(x: Tensor) -> Tensor:
    raise KeyError("no such column")


def _inference(layer: Callable[[], Any]) -> Any:
    with torch.inference_mode():
        return layer()


X = torch.randn(N, FEATURES, generator=generator())
CONSTANT = _inference(X[0].clone)
Y = torch.arange(N) % 2


def good() -> Bad:
    return Bad(lambda x: x)


#: the model, its inputs, and what the error says
BAD: dict[str, tuple[Callable[[], Any], Tensor, str]] = {
    "random": (lambda: Bad(lambda x: F.dropout(x, 0.5, training=True)), X, "is random, in evaluation mode"),
    "rarely random": (lambda: Bad(lambda x: F.dropout(x, 0.02, training=True)), X, "is random"),
    "random by numpy": (lambda: Bad(lambda x: x + 0.01 * float(np.random.rand())), X, "is random"),
    "random by Python": (lambda: Bad(lambda x: x + 0.01 * random.random()), X, "is random"),
    "mixing rows": (lambda: Bad(lambda x: x - x.mean(0)), X, "depends on the other rows"),
    "mixing rows, one row": (lambda: Bad(lambda x: x - x.mean(0)), X[:1], "depends on the other rows"),
    "counting rows": (lambda: Bad(lambda x: x / len(x)), X, "depends on the other rows"),
    "batch statistics": (
        lambda: Bad(nn.BatchNorm1d(FEATURES, track_running_stats=False)),
        X,
        "depends on the other rows.*ValueError: Expected more than 1 value per channel",
    ),
    "in place": (lambda: Bad(_add_in_place), X, r"overwrites its input.*x = x \+ 1"),
    "in place, hidden": (lambda: Bad(_add_behind_autograd), X, "overwrites its input"),
    "in place, first layer": (lambda: Bad(nn.ReLU(inplace=True)), X, "inplace=False"),
    "NaN": (lambda: Bad(lambda x: x.log()), X, "NaN or infinite logits, first in row 0"),
    "no tensor": (lambda: Bad(lambda x: x, Dictionary()), X, "must return a tensor of logits.*dict"),
    "no output": (lambda: Bad(lambda x: x, nn.Linear(FEATURES, 0)), X, "there is no output"),
    "half model": (lambda: good().half(), X, r"layer.0.weight has dtype torch.float16.*model.float\(\)"),
    "bfloat16": (lambda: good().bfloat16(), X.bfloat16(), "x has dtype torch.bfloat16"),
    "half logits": (lambda: Bad(lambda x: x, Halved()), X, "logits of dtype torch.float16.*autocast"),
    "wrong dtype": (
        good,
        X.double(),
        r"x has dtype torch.float64, the model torch.float32: use x.to\(torch.float32\)",
    ),
    "features": (good, X[:, :3], r"inputs of shape \(12, 3\).*RuntimeError: mat1 and mat2 shapes"),
    "images": (good, X.reshape(N, 1, 1, FEATURES)[:, :, :, :4], r"inputs of shape \(12, 1, 1, 4\)"),
    "device": (lambda: good().to("meta"), X, r"x is on cpu, the model on meta"),
    "raising": (lambda: Bad(_fails), X, "KeyError: 'no such column'"),
    "None": (lambda: None, X, "must be a torch.nn.Module.*got None"),
    "a class": (lambda: nn.Linear, X, "got the class Linear: pass an object of it"),
    "a function": (lambda: torch.relu, X, "must be a torch.nn.Module.*wrap a function"),
}
#: they matter where a model is differentiated
WITHOUT_GRADIENTS = {
    "x of inference mode": (good, _inference(X.clone), r"x was created inside torch.inference_mode.*x.clone\(\)"),
    "weights of inference mode": (
        lambda: _inference(good),
        X,
        r"layer.0.weight was created inside torch.inference_mode.*deepcopy",
    ),
    "constants of inference mode": (
        lambda: Bad(lambda x: x * CONSTANT),
        X,
        "tensor that was created inside torch.inference_mode",
    ),
}


class Dictionary(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": x}


class Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2].half()


MEASURES: dict[str, Call] = {
    "Gradient": lambda model, x, y: r2et.explainers.Gradient()(model, x),
    "ERAttack": lambda model, x, y: attacks.ERAttack(k=1, radius=0.1, steps=1)(model, x),
    "thickness": lambda model, x, y: r2et.thickness(model, x, 1, samples=1, steps=1),
    "certify": lambda model, x, y: r2et.certify(model, x, 1),
    "auc": lambda model, x, y: metrics.auc(model, x, y),
    "audit": lambda model, x, y: r2et.audit(model, x, y, k=1, radii=[0.1], steps=1, budget="fast"),
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("name", {**BAD, **WITHOUT_GRADIENTS})
def test_a_bad_model_is_named_in_a_sentence_and_nothing_is_changed(name, measure):
    make, x, words = {**BAD, **WITHOUT_GRADIENTS}[name]
    if name in WITHOUT_GRADIENTS and measure == "auc":
        assert 0 <= MEASURES["auc"](make(), x, Y[: len(x)]) <= 1
        return
    model, before, states = make(), x.clone(), (torch.get_rng_state(), random.getstate())
    modes = [layer.training for layer in model.modules()] if isinstance(model, nn.Module) else []
    with pytest.raises(ModelError, match=f"(?s){words}"):
        MEASURES[measure](model, x, Y[: len(x)])
    assert torch.equal(x, before)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert not modes or [layer.training for layer in model.modules()] == modes


@pytest.mark.parametrize("method", ["auto", certificates.Smoothing(samples=10), "first-order"])
def test_a_forward_pass_that_adds_in_place_does_not_reach_the_inputs_of_certify(method):
    x = X.clone()
    with contextlib.suppress(Exception):  # what is said is tested above
        r2et.certify(Bad(_add_in_place), x, 1, method=method)
    assert torch.equal(x, X)


@pytest.mark.parametrize("measure", [name for name in MEASURES if name != "auc"])
def test_inference_mode_around_a_measurement_is_named(measure):
    with torch.inference_mode(), pytest.raises(ModelError, match="inference_mode is active"):
        MEASURES[measure](good(), X, Y)


def test_an_auc_needs_no_gradients():
    with torch.inference_mode():
        assert metrics.auc(good(), X, Y) == metrics.auc(good(), X.clone(), Y)


GOOD: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: good(),
    "casting": lambda: Bad(lambda x: x.float()),
    "dropout": lambda: Bad(nn.Dropout(0.5)).train(),
    "BatchNorm": lambda: Bad(nn.BatchNorm1d(FEATURES)).train(),
    "own generator": lambda: Bad(lambda x: x + torch.randn(FEATURES, generator=generator())),
    "own seed": lambda: Bad(lambda x: x + _seeded()),
    "frozen": lambda: Bad(nn.Identity(), nn.Linear(FEATURES, 2)).requires_grad_(False),
}
#: what runs code of its own has no certificate
WITHOUT_CERTIFICATE = ("plain", "casting", "own generator", "own seed")


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("measure", [name for name in MEASURES if name not in ("audit", "certify")])
def test_a_good_model_is_measured(name, measure):
    model = GOOD[name]()
    assert same(MEASURES[measure](model, X, Y), MEASURES[measure](model, X, Y))


@pytest.mark.parametrize("name", [name for name in GOOD if name not in WITHOUT_CERTIFICATE])
def test_a_good_model_has_a_certificate(name):
    assert (r2et.certify(GOOD[name](), X, 1).radius > 0).any()


def _seeded() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(FEATURES)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e3])
def test_rounding_alone_is_no_dependence_on_the_batch(size):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 3))
    model[4].weight.data *= size
    assert r2et.explainers.Gradient()(model, torch.randn(50, 64)).isfinite().all()


def test_an_objective_names_a_model_that_overwrites_its_input():
    x = X.clone()
    with pytest.raises(ModelError, match="overwrites its input"):
        objectives.CrossEntropy()(Bad(_add_in_place), x, Y)
    assert torch.equal(x, X)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda x: x + torch.randn_like(x), "random"),
        (lambda x: x - x.mean(0), "batch-dependent"),
        (lambda x: F.dropout(x, 0.5, training=True), "dropout"),
    ],
)
def test_a_check_reports_what_a_measurement_refuses(function, code):
    report = validate.check(Bad(function), X)
    assert [finding.code for finding in report.findings if finding.severity == "error"] == [code]


# --- models that are made in other ways -------------------------------------------------------------------------


def relu_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, 2))


def normed(norm: Callable[[nn.Module], nn.Module]) -> nn.Module:
    """A net that has run, so that weights are left in it that were computed from others."""
    model = relu_net()
    norm(model[0])
    model(X)
    return model


class Remembering(nn.Module):
    """Keeps what it computed, with the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.seen = relu_net(), []

    def forward(self, x: Tensor) -> Tensor:
        self.last = {"hidden": self.net[1](self.net[0](x))}
        self.seen.append(self.last["hidden"])
        return self.net[2](self.last["hidden"])


MADE: dict[str, Callable[[], nn.Module]] = {
    "spectral_norm": lambda: normed(torch.nn.utils.spectral_norm),
    "weight_norm": lambda: normed(torch.nn.utils.weight_norm),
    "parametrized": lambda: normed(torch.nn.utils.parametrizations.spectral_norm),
    "remembering": lambda: (made := Remembering(), made(X))[0],
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_a_model_with_results_of_a_pass_in_it_is_attacked_and_copied(name):
    model, x = MADE[name](), X.clone()
    before = state(model, x, Y)
    result = attacks.BoundaryAttack(k=K, radius=0.5, steps=5)(model, x)
    copy = validate.smooth(model)
    assert all(
        same(value, after) for value, after in zip(before.values(), state(model, x, Y).values(), strict=True)
    )
    assert torch.allclose(result.after, r2et.explainers.Gradient()(model, result.x, model.eval()(x).argmax(1)))
    (slope,) = torch.autograd.grad(copy(x).sum(), next(iter(copy.parameters())))
    assert slope.any(), "the copy depends on its parameters"


def test_a_model_that_cannot_be_copied_is_named():
    model = relu_net()
    model.lock = threading.Lock()
    with pytest.raises(ModelError, match=r"Sequential cannot be copied \(TypeError: cannot pickle '_thread.lock'"):
        attacks.BoundaryAttack(k=K, radius=0.5, steps=5)(model, X)


@pytest.mark.parametrize("measure", ["extract", "piecewise_linear", "check", *MEASURES])
def test_a_lazy_model_is_not_given_its_weights_by_a_measurement(measure):
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d(), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(ModelError, match=r"0.weight of the model has no values yet.*model\(x\[:2\]\)"):
        {**CALLS, **MODES, **MEASURES}[measure](model, X, Y)
    assert type(model[0]) is nn.LazyLinear
    assert type(model[1]) is nn.LazyBatchNorm1d


@pytest.mark.parametrize("compiled", [torch.jit.script, lambda model: torch.jit.trace(model, X)])
def test_a_compiled_model_is_left_as_it_was(compiled):
    """Symbols were put in the place of its weights, and stayed there."""
    model = compiled(relu_net())
    for call in (
        lambda: enclosure.extract(model, X.shape[1:]),
        lambda: r2et.certify(model, X, K),
        lambda: validate.smooth(model),
    ):
        with pytest.raises(ModelError, match="compiled by TorchScript"):
            call()
    attacks.MinimalFlip(k=K, radius=0.1, steps=1)(model, X)
    assert all(isinstance(getattr(model, "0").__dict__.get(name, None), type(None)) for name in ("weight", "bias"))
    assert isinstance(getattr(model, "0").weight, Tensor)


def test_reading_a_model_that_counts_its_passes_does_not_count():
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(FEATURES, 2)
            self.register_buffer("passes", torch.zeros(()))

        def forward(self, x: Tensor) -> Tensor:
            self.passes += 1
            return self.layer(x)

    model = Counting()
    enclosure.extract(model, X.shape[1:])
    assert not model.passes


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(1, 4), nn.TransformerEncoderLayer(4, 1, 8, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.first(x.unsqueeze(2))).mean(1)


def _overwritten(x: Tensor) -> Tensor:
    h = torch.sigmoid(x)
    h += 1
    return h


def _checkpointed(x: Tensor) -> Tensor:
    return torch.utils.checkpoint.checkpoint(torch.tanh, x, use_reentrant=True)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Bad(_overwritten), "overwrites a value that its derivative needs.*inplace=False"),
        (lambda: Bad(_checkpointed), "use use_reentrant=False"),
        (Attending, r"cannot be differentiated twice.*sdpa_kernel\(SDPBackend.MATH\)"),
    ],
)
def test_a_model_without_the_derivatives_that_an_attack_needs_is_named(model, words):
    with pytest.raises(ModelError, match=f"(?s){words}"):
        attacks.ERAttack(k=K, radius=0.1, steps=2)(model(), X)


SLOW = ("WorstCase", "TrustRegion", "MinimalFlip", "BoundaryAttack")


# --- settings of torch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SmoothGrad.__call__", "MSEAttack.__call__", "certify", "thickness", "audit"])
def test_the_default_dtype_does_not_decide_a_result(name):
    from r2et.explainers import averaged

    (x, y), model = rows(), net()
    found = []
    for dtype in (torch.float32, torch.float64):
        averaged._standard_noise.cache_clear()
        torch.set_default_dtype(dtype)
        try:
            found.append(CALLS[name](model, x, y))
        finally:
            torch.set_default_dtype(torch.float32)
    assert same(*found)


@pytest.mark.parametrize("name", ["MSEAttack.__call__", "NoiseAttack.__call__", "Gradient.__call__"])
def test_the_default_device_does_not_decide_where_numbers_are_drawn(name):
    (x, y), model = rows(), net()
    expected = CALLS[name](model, x, y)
    with torch.device("meta"):
        assert same(CALLS[name](model, x, y), expected)


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith(SLOW)])
def test_no_grad_around_a_measurement_changes_nothing(name):
    (x, y), model = rows(), net()
    with torch.no_grad():
        result = CALLS[name](model, x, y)
    assert same(result, CALLS[name](model, x, y))


# --- how often --------------------------------------------------------------------------------------------------

#: they look at layers or draw without the model
NO_LOOK = {"piecewise_linear", "extract", "path_explanations", "GaussianNeighbours.draw", "UniformNeighbours.draw"}
#: one call is made of two; an audit looks at the model, and at its copy in float64 for the bracket
TWO_CALLS = {"adversarial_auc", "audit"}


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith(SLOW)])
def test_one_call_looks_at_the_model_once(name, monkeypatch):
    from r2et.numerics import preflight

    looks, look = [], preflight.preflight
    monkeypatch.setattr(
        preflight, "preflight", lambda *args, **options: (looks.append(args), look(*args, **options))
    )
    CALLS[name](net(), *rows())
    assert len(looks) == (0 if name in NO_LOOK else 2 if name in TWO_CALLS else 1)


def test_a_look_takes_three_passes_over_at_most_three_rows():
    from r2et.numerics.preflight import preflight

    model, sizes = good(), []
    model.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    preflight(model, X)
    assert sizes == [3, 3, 1]


def test_two_calls_look_twice(monkeypatch):
    model = good()
    r2et.explainers.Gradient()(model, X)
    model.function = lambda x: x - x.mean(0)
    with pytest.raises(ModelError, match="depends on the other rows"):
        r2et.explainers.Gradient()(copy.copy(model), X)
    with pytest.raises(ModelError, match="depends on the other rows"):
        r2et.explainers.Gradient()(model, X)
