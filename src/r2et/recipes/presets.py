"""One table of how each kind of data is trained and attacked: the paper's settings (Table 4), and smaller ones.

Every kind has two presets: "paper" is Table 4 where it says anything, "cpu" is what two cores train in minutes.
What the paper does not state (batch sizes, the training of the vanilla ResNets, everything about OCT but its 512
neurons) is our choice, and a comment says so.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from r2et.explainers import Activation, Explainer, Gradient, GradientTimesInput
from r2et.models import ResNet
from r2et.numerics.values import check_choice, check_count, check_flag, check_kind, check_number, check_positive
from r2et.objectives.explained_batch import Direction
from r2et.recipes.networks import Outline, of_single_inputs

if TYPE_CHECKING:
    from r2et.data import Dataset, Info

PresetName = Literal["cpu", "paper"]
Optimiser = Literal["adam", "sgd"]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long and how fast.

    Args:
        epochs: at most this many.
        lr: learning rate.
        batch_size: not stated in the paper.
        patience: of early stopping; None = never.
        optimiser: "adam", or "sgd" with momentum 0.9; not stated in the paper.
        annealed: whether the learning rate falls to zero over the epochs, along half a cosine.
    """

    epochs: int
    lr: float
    batch_size: int
    patience: int | None = None
    optimiser: Optimiser = "adam"
    annealed: bool = False

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_positive("lr", self.lr)
        check_count("batch_size", self.batch_size)
        if self.patience is not None:
            check_count("patience", self.patience)
        check_choice("optimiser", self.optimiser, get_args(Optimiser))
        check_flag("annealed", self.annealed)

    def options(self) -> dict[str, Any]:
        """What `fit` takes; `train_method` makes the optimiser, whose weight decay it knows, and the annealing."""
        return {name: getattr(self, name) for name in ("epochs", "lr", "batch_size", "patience")}


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How one kind of data is trained and attacked.

    Args:
        name: "cpu" or "paper": methods have a grid of that name.
        kind: of data, a key of `PRESETS`: methods have hyper-parameters that suit it.
        architecture: of the model, without what the data decide; see `networks.complete`.
        explainer: the explanation that is trained for, attacked and judged (App. B.1, "Saliency maps").
        k: size of the salient set.
        boundary_pairs: k' of R2ET-mm; None = as many as there are (k' = k in Table 4).
        training: from scratch.
        retraining: from a vanilla model.
        attack_step, attack_steps: length and number of the steps of ERAttack and MSEAttack, in the units of the
            scaled inputs. (The paper also caps the largest entry of one step, at 5 of 255 grey values or 0.2 of an
            edge; no step of this length reaches that.)
        retrains: whether the paper retrains a vanilla model by each method, where a method can (B.1.2: ResNets).
        min_precision, max_auc_drop: when retraining stops early, as in `Retraining`.
        auc_margin: a model is accurate enough if its validation AUC is at most so far below Vanilla's (B.1.2).
        direction: of the finite difference of scale-free R2ET; None = the objective's own.
    """

    name: PresetName
    kind: str = "tabular"
    architecture: Outline
    explainer: Explainer = field(default_factory=Gradient)
    k: int
    boundary_pairs: int | None = None
    training: Schedule
    retraining: Schedule
    attack_step: float
    attack_steps: int
    retrains: bool = False
    min_precision: float = 0.7
    max_auc_drop: float = 0.02
    auc_margin: float = 0.01
    direction: Direction | None = None

    def __post_init__(self) -> None:
        check_kind("explainer", self.explainer, Explainer, "r2et.explainers.Gradient()")
        for name in ("k", "attack_steps"):
            check_count(name, getattr(self, name))
        check_positive("attack_step", self.attack_step)
        for name in ("training", "retraining"):
            check_kind(name, getattr(self, name), Schedule, "Schedule(epochs=10, lr=1e-3, batch_size=64)")
        check_number("auc_margin", self.auc_margin)

    @property
    def radius(self) -> float:
        """The budget of an attack: step times iterations.

        >>> [PRESETS[kind]["paper"].radius for kind in ("tabular", "mnist", "cifar10", "graphs")]
        [1.0, 1.0, 5.0, 1.0]
        """
        return round(self.attack_step * self.attack_steps, 12)

    def threshold(self, vanilla_auc: float) -> float:
        """The validation AUC that a model must reach, given the vanilla model's (B.1.2)."""
        return vanilla_auc - self.auc_margin


def _tabular(name: PresetName) -> Preset:
    # an MLP of 32 neurons needs no smaller preset
    return Preset(
        name=name,
        kind="tabular",
        architecture={"name": "mlp", "hidden": [32]},
        k=8,
        training=Schedule(epochs=300, lr=1e-2, batch_size=256, patience=30),
        # App. B.2.5 states the epochs alone
        retraining=Schedule(epochs=10, lr=1e-3, batch_size=256),
        attack_step=1e-3,
        attack_steps=1000,
    )


_MNIST = Preset(
    name="paper",
    kind="mnist",
    # the widths are not stated: LeNet's, and an embedding of 64
    architecture={"name": "siamese", "embedding": {"name": "cnn", "classes": 64}},
    # normalised in the paper, which changes no ranking; the scale-free R2ET trains on the normalised one
    explainer=Gradient(inputs=2),
    k=50,  # Table 1; 100 is the appendix's alternative
    training=Schedule(epochs=100, lr=1e-3, batch_size=64),
    retraining=Schedule(epochs=10, lr=1e-3, batch_size=64),
    attack_step=1e-2,
    attack_steps=100,
    direction="adversarial",
)
_CIFAR10 = Preset(
    name="paper",
    kind="cifar10",
    architecture={"name": "resnet"},
    explainer=Gradient(reduce="abs-sum"),
    k=50,  # Table 1; 100 is the appendix's alternative
    training=Schedule(epochs=100, lr=1e-1, batch_size=128, optimiser="sgd"),  # the vanilla model: not stated
    retraining=Schedule(epochs=10, lr=1e-2, batch_size=128, optimiser="sgd"),
    attack_step=5e-2,
    attack_steps=100,
    retrains=True,
    # no early stopping in Table 4: what became of accuracy is judged by the selection rule
    min_precision=0.0,
    max_auc_drop=1.0,
    direction="adversarial",
)
_GRAPHS = Preset(
    name="paper",
    kind="graphs",
    architecture={"name": "siamese", "embedding": {"name": "gcn", "hidden": 256, "embedding": 128}},
    explainer=GradientTimesInput(inputs=2),
    k=50,
    boundary_pairs=20,
    training=Schedule(epochs=10, lr=1e-4, batch_size=64),
    retraining=Schedule(epochs=10, lr=1e-4, batch_size=64),
    attack_step=1e-2,
    attack_steps=100,
    auc_margin=0.02,
    direction="adversarial",
)
_OCT = replace(
    _CIFAR10,
    kind="oct",
    architecture={"name": "resnet", "stem": "large"},
    explainer=Activation(layer=ResNet.penultimate),
    training=Schedule(epochs=50, lr=1e-3, batch_size=32),
    retraining=Schedule(epochs=10, lr=1e-4, batch_size=32),
)

#: Table 4's columns and OCT (Sec. 6.2), each as in the paper and at a size for CPUs
PRESETS: dict[str, dict[PresetName, Preset]] = {
    "tabular": {"paper": _tabular("paper"), "cpu": _tabular("cpu")},
    "mnist": {
        "paper": _MNIST,
        "cpu": replace(_MNIST, name="cpu", training=Schedule(epochs=12, lr=1e-3, batch_size=64)),
    },
    "cifar10": {
        "paper": _CIFAR10,
        "cpu": replace(
            _CIFAR10,
            name="cpu",
            architecture={"name": "resnet", "widths": [16, 32, 64], "blocks": 1},
            training=Schedule(epochs=15, lr=2e-3, batch_size=64),
            retraining=Schedule(epochs=2, lr=5e-4, batch_size=64),
        ),
    },
    "graphs": {
        "paper": _GRAPHS,
        "cpu": replace(
            _GRAPHS,
            name="cpu",
            # small batches stay in the processor's cache: a quarter faster, and more steps per epoch
            training=Schedule(epochs=2, lr=1e-3, batch_size=16),
            retraining=Schedule(epochs=3, lr=3e-4, batch_size=16),
        ),
    },
    "oct": {
        "paper": _OCT,
        "cpu": replace(
            _OCT,
            name="cpu",
            # the 128 neurons of the last stage are ranked, k = 50 of them
            architecture={"name": "resnet", "widths": [16, 32, 64, 128], "blocks": 1, "stem": "large"},
            training=Schedule(epochs=25, lr=2e-3, batch_size=32, annealed=True),
            retraining=Schedule(epochs=5, lr=3e-4, batch_size=32),
        ),
    },
}


def check_preset(name: str) -> None:
    """Raise unless name is that of a preset."""
    check_choice("preset", name, get_args(PresetName))


def find_preset(data: "Dataset | Info", name: str = "cpu") -> Preset:
    """The preset of a data set, fitted to whether it has pairs or single inputs.

    Args:
        data: of which kind, k and number of inputs count; what is known before it is read is enough if that states
            a kind.
        name: "cpu" or "paper".

    >>> import r2et
    >>> preset = find_preset(r2et.data.load("breast-cancer"), "paper")
    >>> preset.architecture, preset.training.epochs, preset.explainer
    ({'name': 'mlp', 'hidden': [32]}, 300, Gradient(reduce='abs', inputs=1, score='log-odds'))
    """
    from r2et.data import Dataset, Info

    check_preset(name)
    check_kind("data", data, (Dataset, Info), 'r2et.data.load("breast-cancer")')
    check_choice("kind of data", data.kind, PRESETS)
    preset = PRESETS[data.kind][name]  # type: ignore[index]  # checked above
    architecture = dict(preset.architecture)
    if data.inputs == 1:
        architecture = of_single_inputs(architecture)
    elif architecture["name"] != "siamese":
        architecture = {"name": "siamese", "embedding": architecture}
    # the data set's own k: the preset's for the paper's sets, another one where people brought theirs
    explainer = replace(preset.explainer, inputs=data.inputs)
    return replace(preset, architecture=architecture, explainer=explainer, k=data.k)
