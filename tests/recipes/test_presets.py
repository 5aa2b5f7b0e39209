from dataclasses import replace

import pytest
import torch
from torch import nn

import r2et
from r2et.data import Dataset, GraphLayout, ImageLayout, Split
from r2et.domain import Domain
from r2et.errors import CheckpointError, InputError
from r2et.explainers import EXPLAINERS, Activation, Gradient, GradientTimesInput
from r2et.objectives import R2ET, AdversarialTraining, CrossEntropy, EstimatedHessian
from r2et.recipes import METHODS, PRESETS, Preset, find_preset, train_method
from r2et.recipes.networks import complete, of_single_inputs, with_activation

ALL = [(kind, name) for kind in PRESETS for name in PRESETS[kind]]


def dataset(shape: tuple[int, ...], name: str = "mine", inputs: int = 1, **given: object) -> Dataset:
    y = torch.arange(8) % 2
    part = Split(torch.randn(8, *shape, generator=torch.Generator().manual_seed(0)), y)
    features = part.x[0].numel() // inputs
    names = tuple(map(str, range(features)))
    return Dataset(name, part, part, part, names, ("a", "b"), Domain(), k=2, inputs=inputs, **given)  # type: ignore[arg-type]


# --- the table ------------------------------------------------------------------------------------------------

#: Table 4: k', epochs, learning rate, early stopping, attack iterations, step
TABLE_4 = {
    "tabular": (None, 300, 1e-2, 30, 1000, 1e-3),
    "mnist": (None, 100, 1e-3, None, 100, 1e-2),
    "cifar10": (None, 10, 1e-2, None, 100, 5e-2),
    "graphs": (20, 10, 1e-4, None, 100, 1e-2),
}


@pytest.mark.parametrize("kind", TABLE_4)
def test_the_paper_s_presets_are_table_4(kind):
    preset = PRESETS[kind]["paper"]
    # the epochs of CIFAR-10 in the table are of retraining
    schedule = preset.retraining if kind == "cifar10" else preset.training
    found = (
        preset.boundary_pairs,
        schedule.epochs,
        schedule.lr,
        schedule.patience,
        preset.attack_steps,
        preset.attack_step,
    )
    assert found == TABLE_4[kind]


def test_explanations_and_sizes_are_those_of_the_paper():
    papers = {kind: PRESETS[kind]["paper"] for kind in PRESETS}
    assert {kind: preset.k for kind, preset in papers.items()} == {
        "tabular": 8,
        "mnist": 50,
        "cifar10": 50,
        "graphs": 50,
        "oct": 50,
    }
    assert {kind: preset.explainer for kind, preset in papers.items()} == {
        "tabular": Gradient(),
        "mnist": Gradient(inputs=2),
        "cifar10": Gradient(reduce="abs-sum"),
        "graphs": GradientTimesInput(inputs=2),
        "oct": Activation(layer="avgpool"),
    }
    assert {kind for kind, preset in papers.items() if preset.retrains} == {"cifar10", "oct"}
    assert {kind: preset.auc_margin for kind, preset in papers.items()} == {
        **dict.fromkeys(papers, 0.01),
        "graphs": 0.02,
    }
    assert papers["graphs"].threshold(0.9) == pytest.approx(0.88)
    assert [papers[kind].radius for kind in TABLE_4] == [1.0, 1.0, 5.0, 1.0]


@pytest.mark.parametrize(("kind", "name"), ALL)
def test_every_preset_says_which_one_it_is_and_names_methods_and_settings_that_exist(kind, name):
    preset = PRESETS[kind][name]
    assert preset.name == name
    assert preset.kind == kind
    for method in METHODS.values():
        values = [*method.grids.get(name, {}), *method.suited.get(kind, {})]
        assert method.settings(dict.fromkeys(values, 1.0), kind).keys() == method.defaults.keys()


def test_methods_suit_kinds_of_data_that_exist_and_have_values_of_their_own():
    for method in METHODS.values():
        assert method.suited.keys() <= PRESETS.keys()
        for values in [*method.suited.values(), *method.grids.values(), *method.variants.values()]:
            assert values.keys() <= method.defaults.keys()


@pytest.mark.parametrize("kind", PRESETS)
def test_the_smaller_preset_differs_in_size_alone(kind):
    paper, cpu = PRESETS[kind]["paper"], PRESETS[kind]["cpu"]
    sizes = ("name", "architecture", "training", "retraining")
    assert replace(cpu, **{field: getattr(paper, field) for field in sizes}) == paper
    assert cpu.training.epochs <= paper.training.epochs


PARAMETERS = {
    # counted by hand: 28 x 32 + 32 + 32 x 2 + 2
    "tabular": ((28,), 2, 994),
    # ResNet-18 for 32 x 32 images and ten classes, as published
    "cifar10": ((3, 32, 32), 10, 11_173_962),
    # 116 x 256 + 256 + 256 x 128 + 128 + 4
    "graphs": ((2, 6670), 2, 62_852),
}


@pytest.mark.parametrize("kind", PARAMETERS)
def test_models_have_the_paper_s_size(kind):
    shape, classes, count = PARAMETERS[kind]
    model = METHODS["vanilla"].network(shape, classes, {}, PRESETS[kind]["paper"].architecture)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize(("name", "neurons"), [("paper", 512), ("cpu", 128)])
def test_more_neurons_than_k_in_the_concept_layer(name, neurons):
    preset = PRESETS["oct"][name]
    model = METHODS["vanilla"].network((1, 32, 32), 2, {}, preset.architecture).eval()
    assert preset.explainer(model, torch.randn(2, 1, 32, 32)).shape == (2, neurons)
    assert preset.k < neurons


# --- which preset ---------------------------------------------------------------------------------------------


def test_the_preset_of_a_data_set():
    graph = GraphLayout(tuple("abcd"), torch.zeros(6), torch.ones(6))
    image = ImageLayout((1, 28, 28), (0.0,), (1.0,))

    def found(*arguments, **given) -> Preset:
        return find_preset(dataset(*arguments, **given), "paper")

    assert found((5,)).architecture == {"name": "mlp", "hidden": [32]}
    assert found((5,)).k == 2, "the data set's own"
    pairs = found((2, 6), inputs=2, layout=graph)
    assert pairs.architecture["name"] == "siamese"
    assert pairs.explainer == GradientTimesInput(inputs=2)
    single = found((6,), layout=graph)
    assert single.architecture == {"name": "gcn", "hidden": 256, "embedding": 128}
    assert single.explainer == GradientTimesInput()
    assert found((1, 28, 28), kind="mnist", layout=image).architecture == {"name": "cnn"}
    assert found((1, 28, 28), kind="mnist", layout=image).explainer == Gradient()
    own = found((2, 1, 28, 28), inputs=2, layout=image)
    assert own.architecture == {"name": "siamese", "embedding": {"name": "resnet"}}
    assert own.explainer == Gradient(inputs=2, reduce="abs-sum")


def test_an_unknown_preset():
    with pytest.raises(InputError, match=r"unknown preset 'gpu'.*cpu, paper"):
        find_preset(dataset((5,)), "gpu")


# --- networks -------------------------------------------------------------------------------------------------


def test_an_outline_is_completed_by_the_data():
    cnn = {"name": "siamese", "embedding": {"name": "cnn", "classes": 64}}
    assert complete(cnn, (2, 1, 28, 20), 2)["embedding"] == {
        "name": "cnn",
        "channels": 1,
        "size": [28, 20],
        "classes": 64,
    }
    assert complete({"name": "resnet"}, (3, 8, 8), 10) == {"name": "resnet", "channels": 3, "classes": 10}
    assert with_activation(cnn, "softplus", 2.0)["embedding"]["beta"] == 2.0
    assert of_single_inputs({"name": "mlp", "hidden": [3]}) == {"name": "mlp", "hidden": [3]}


@pytest.mark.parametrize(
    ("outline", "shape", "classes", "message"),
    [
        ({"name": "mlp"}, (1, 8, 8), 2, r"'mlp' takes inputs of shape \(features,\).*\(1, 8, 8\)"),
        ({"name": "resnet"}, (7,), 2, r"'resnet' takes.*height.*\(7,\)"),
        ({"name": "gcn"}, (7,), 2, "7 is no such number"),
        ({"name": "siamese", "embedding": {"name": "gcn"}}, (6,), 2, r"pairs of shape.*\(6,\)"),
        ({"name": "siamese", "embedding": {"name": "gcn"}}, (2, 6), 3, "3 classes"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_data_that_a_model_cannot_take(outline, shape, classes, message):
    with pytest.raises(InputError, match=message):
        complete(outline, shape, classes)


def test_a_linear_model_of_images_is_refused_with_the_shape():
    data = dataset((1, 4, 4))
    with pytest.raises(InputError, match=r"'linear' takes inputs of shape \(features,\).*\(1, 4, 4\)"):
        train_method("linear", data.train, data.validation, 2, epochs=1)


# --- objectives on an explanation -----------------------------------------------------------------------------


def test_objectives_regularise_the_preset_s_explanation():
    explainer = GradientTimesInput(inputs=2)

    def made(name: str):
        method = METHODS[name]
        return method.objective_for(5, method.defaults, explainer, boundary_pairs=3)

    on_probability = replace(explainer, score="probability")
    assert made("r2et") == R2ET(k=5, gap=1.0, curvature=1.0, explainer=on_probability)
    assert made("r2et-mm") == R2ET(
        k=5, gap=1.0, curvature=1.0, pairs="boundary", boundary_pairs=3, explainer=on_probability
    )
    assert made("r2et-sf").explainer == explainer, "p (1 - p) cancels: log-odds"
    assert made("est-h") == EstimatedHessian(weight=1.0, explainer=on_probability)
    assert made("at") == AdversarialTraining(k=5, radius=1.0, explainer=explainer)
    assert made("wd") == CrossEntropy()


def test_an_explanation_that_averages_or_activates_keeps_its_own_score():
    for explainer in (Activation(layer="0"), r2et.explainers.SmoothGrad(samples=3, score="log-odds")):
        assert METHODS["r2et"].objective_for(2, {"gap": 1.0, "curvature": 0.0}, explainer).explainer == explainer


def test_k_counts_what_is_ranked():
    data = dataset((2, 6), inputs=2, layout=GraphLayout(tuple("abcd"), torch.zeros(6), torch.ones(6)))
    preset = find_preset(data)
    with pytest.raises(InputError, match="6 features that are ranked, got k=6"):
        train_method("vanilla", data.train, data.validation, 6, preset=preset, epochs=1)
    assert train_method("vanilla", data.train, data.validation, 5, preset=preset, epochs=1).records


def test_what_suits_the_data_comes_before_the_defaults_and_after_the_given():
    data = dataset((6,))
    seen: list[R2ET] = []

    class Watching(r2et.training.Trainer):
        def train_epoch(self, epoch: int) -> dict[str, float]:
            seen.append(self.objective)
            return super().train_epoch(epoch)

    preset = replace(PRESETS["tabular"]["cpu"], kind="oct")
    for given in (None, {"gap": 2.0}):
        train_method(
            "r2et", data.train, data.validation, 2, given, preset=preset, epochs=1, trainer=Watching, patience=None
        )
    assert [(o.gap, o.curvature) for o in seen] == [(0.01, 0.01), (2.0, 0.01)]


@pytest.mark.parametrize("method", ["vanilla", "wd"])
def test_sgd_gets_learning_rate_and_weight_decay(method):
    data = dataset((6,))
    base = PRESETS["tabular"]["cpu"]
    preset = replace(base, training=replace(base.training, optimiser="sgd", epochs=2))
    seen = []

    class Watching(r2et.training.Trainer):
        def make_optimiser(self, parameters):
            seen.append(super().make_optimiser(parameters))
            return seen[-1]

    result = train_method(method, data.train, data.validation, 2, preset=preset, lr=0.3, trainer=Watching)
    assert len(result.records) == 2, "the preset's epochs"
    assert isinstance(seen[0], torch.optim.SGD)
    group = seen[0].param_groups[0]
    assert (group["lr"], group["momentum"]) == (0.3, 0.9)
    assert group["weight_decay"] == METHODS[method].defaults.get("weight_decay", 0.0)


def test_retraining_has_a_schedule_of_its_own():
    data = dataset((6,))
    vanilla = train_method("vanilla", data.train, data.validation, 2, epochs=2).model
    result = train_method("wd", data.train, data.validation, 2, vanilla=vanilla)
    assert len(result.records) <= PRESETS["tabular"]["paper"].retraining.epochs == 10


# --- explainers in a checkpoint -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "explainer",
    [
        Gradient(inputs=2, reduce="signed"),
        GradientTimesInput(score="probability"),
        r2et.explainers.SmoothGrad(samples=7, sigma=0.3),
        r2et.explainers.IntegratedGradients(points=5, baseline=0.5),
        Activation(layer="avgpool", reduce="abs"),
    ],
    ids=lambda explainer: type(explainer).__name__,
)
def test_an_explainer_survives_a_checkpoint(tmp_path, explainer):
    r2et.save_model(r2et.models.Linear(3, 2), tmp_path, explainer=EXPLAINERS.describe(explainer))
    assert EXPLAINERS.restore(r2et.checkpoints.load_model(tmp_path)[1]["explainer"]) == explainer


def test_an_explainer_that_is_not_plain_values_is_refused():
    with pytest.raises(InputError, match=r"IntegratedGradients.*cannot be described"):
        EXPLAINERS.describe(r2et.explainers.IntegratedGradients(baseline=torch.zeros(3)))


@pytest.mark.parametrize("description", [{}, {"name": "grad"}, {"name": "gradient", "inputs": 3}, {"layer": "a"}])
def test_a_description_of_no_explainer(description):
    with pytest.raises(CheckpointError, match="does not describe an explainer"):
        EXPLAINERS.restore(description)


def test_batchnorm_models_can_be_retrained_and_resumed(tmp_path):
    # its counters have no axes, which hashing them once tripped over
    data = dataset((1, 8, 8), layout=ImageLayout((1, 8, 8), (0.0,), (1.0,)))
    preset = replace(find_preset(data), architecture={"name": "resnet", "widths": [4], "blocks": 1})
    vanilla = train_method("vanilla", data.train, data.validation, preset=preset, epochs=1).model
    assert isinstance(vanilla, nn.Module)
    given = {"vanilla": vanilla, "preset": preset, "checkpoint": tmp_path}
    train_method("r2et", data.train, data.validation, epochs=1, **given)
    result = train_method("r2et", data.train, data.validation, epochs=2, resume=True, **given)
    assert len(result.records) == 2


@pytest.mark.parametrize("freeze", [True, False])
def test_running_statistics_are_kept_in_retraining_unless_told(freeze):
    data = dataset((1, 8, 8), layout=ImageLayout((1, 8, 8), (0.0,), (1.0,)))
    model = r2et.models.ResNet(1, 2, widths=(4,), blocks=1)
    before = {name: value.clone() for name, value in model.named_buffers()}
    retraining = r2et.training.Retraining(
        model, k=2, min_precision=0.0, max_auc_drop=1.0, freeze_statistics=freeze
    )
    result = r2et.fit(
        model, data.train, data.validation, settings=r2et.training.Settings(epochs=1), retraining=retraining
    )
    assert result.selected_epoch == 1
    same = all(torch.equal(value, before[name]) for name, value in result.model.named_buffers())
    assert same is freeze
