"""The public face: names, lazy imports, representations."""

import subprocess
import sys

import pytest
import torch

import r2et

NAMES = [
    "Bracket",
    "Columns",
    "Domain",
    "StableClassifier",
    "StableRegressor",
    "audit",
    "bracket",
    "certify",
    "errors",
    "fit",
    "metrics",
    "models",
    "open_model",
    "precision_at_k",
    "recipes",
    "save_model",
    "tables",
    "thickness",
    "thickness_bounds",
]
INSIDE = {
    "attacks": ["AttackResult", "ERAttack", "MSEAttack", "WorstCase"],
    "explainers": [
        "Activation",
        "Background",
        "ColumnEffects",
        "Contributions",
        "FromCaptum",
        "Gradient",
        "GradientTimesInput",
        "IntegratedGradients",
        "SmoothGrad",
    ],
    "objectives": [
        "R2ET",
        "CrossEntropy",
        "EstimatedHessian",
        "ExactHessian",
        "SSR",
        "CertifiedRadius",
        "AdversarialTraining",
        "DirectThickness",
    ],
    "data": ["load"],
    "report": ["saliency_pair", "saliency_grid", "connectome_matrix", "connectome_circle", "magnitude_by_rank"],
    "validate": ["smooth"],
}


def test_the_face_is_small():
    assert len(r2et.__all__) <= 25
    assert set(NAMES) | set(INSIDE) == set(r2et.__all__)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_design(name):
    assert name in r2et.__all__
    assert getattr(r2et, name) is not None


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in INSIDE.items() for n in names])
def test_names_inside(module, name):
    assert module in r2et.__all__
    assert callable(getattr(getattr(r2et, module), name))


#: for those who extend r2et or read its results: reached through their package, not among the names of the face
BEHIND = {
    "auditing": ["Audit"],
    "ranking": ["rank_correlation"],
    "stability": ["pairwise_thickness", "GaussianNeighbours", "UniformNeighbours", "AdversarialNeighbours"],
    "training": ["FitResult"],
}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in BEHIND.items() for n in names])
def test_names_behind_the_face(module, name):
    assert callable(getattr(getattr(r2et, module), name))
    assert name not in r2et.__all__


def test_the_face_fits_on_one_screen():
    assert len(r2et.__all__) <= 25


@pytest.mark.parametrize("name", r2et.__all__)
def test_everything_that_is_named_exists(name):
    assert getattr(r2et, name) is not None
    assert name in dir(r2et)


def test_all_is_sorted_and_unique():
    assert r2et.__all__ == sorted(set(r2et.__all__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="certifi"):
        r2et.certifi  # noqa: B018


def test_a_star_import_works():
    names: dict[str, object] = {}
    exec("from r2et import *", names)
    assert set(r2et.__all__) <= set(names)


def test_import_is_light():
    """What explains, measures and attacks loads torch and nothing that is needed later."""
    code = (
        "import sys, r2et\n"
        "heavy = ['pandas', 'PIL', 'lightning_fabric', 'typer', 'captum', 'matplotlib', 'pooch', 'jinja2']\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_import_leaves_random_numbers_and_threads_alone():
    code = (
        "import torch\n"
        "state, threads, dtype = torch.get_rng_state(), torch.get_num_threads(), torch.get_default_dtype()\n"
        "import r2et\n"
        "assert torch.equal(state, torch.get_rng_state())\n"
        "assert (threads, dtype) == (torch.get_num_threads(), torch.get_default_dtype())\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("thing", "shown"),
    [
        (
            lambda: r2et.explainers.Gradient(reduce="signed"),
            ["Gradient(", "reduce='signed'", "score='log-odds'", "inputs=1"],
        ),
        (
            lambda: r2et.explainers.SmoothGrad(samples=7),
            ["SmoothGrad(", "samples=7", "sigma=0.707", "score='probability'"],
        ),
        (
            lambda: r2et.explainers.IntegratedGradients(points=9),
            ["IntegratedGradients(", "points=9", "rule='gauss-legendre'"],
        ),
        (lambda: r2et.explainers.Activation(layer="net.1"), ["Activation(", "layer='net.1'"]),
        (lambda: r2et.stability.GaussianNeighbours(0.3), ["GaussianNeighbours(sigma=0.3", "aggregate='mean'"]),
        (lambda: r2et.stability.UniformNeighbours(0.3, "minimum"), ["UniformNeighbours(radius=0.3", "'minimum'"]),
        (lambda: r2et.attacks.ERAttack(k=3, radius=0.5), ["ERAttack(k=3, radius=0.5, steps=1000", "keep='best'"]),
        (lambda: r2et.attacks.MSEAttack(k=3, radius=0.5, cap=0.1), ["MSEAttack(k=3", "cap=0.1"]),
        (lambda: r2et.Domain(lower=0.0, frozen=[2]), ["Domain(lower=0.0", "frozen=(2,)"]),
        (lambda: r2et.objectives.R2ET(k=3, every=4), ["R2ET(", "k=3", "gap=1.0", "every=4"]),
        (lambda: r2et.objectives.SSR(iterations=2), ["SSR(", "iterations=2"]),
    ],
)
def test_representations_show_the_settings(thing, shown):
    text = repr(thing())
    for part in shown:
        assert part in text


def test_settings_are_frozen():
    for thing in (r2et.explainers.Gradient(), r2et.attacks.ERAttack(k=1, radius=1.0), r2et.objectives.R2ET(k=2)):
        with pytest.raises(AttributeError):
            thing.reduce = "signed"


def test_errors_are_value_errors():
    for error in (
        r2et.errors.InputError,
        r2et.errors.ModelError,
        r2et.errors.DataError,
        r2et.errors.CheckpointError,
    ):
        assert issubclass(error, ValueError)


def test_the_example_of_the_design():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(9, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2))
    x, y = torch.randn(4, 9), torch.tensor([0, 1, 0, 1])
    scores = r2et.explainers.Gradient()(model, x, target=None, create_graph=False)
    assert scores.shape == (4, 9)
    assert r2et.thickness(
        model, x, 3, variant="probability", neighbours=r2et.stability.GaussianNeighbours(0.1)
    ).shape == (4,)
    lower, upper = r2et.thickness_bounds(model, x, 3, 0.1, explainer=r2et.explainers.Gradient())
    assert (lower <= upper).all()
    result = r2et.attacks.ERAttack(k=3, radius=1.0, steps=5, keep="best")(model, x, domain=None, seed=None)
    assert r2et.precision_at_k(result.before, result.after, 3).tolist() == pytest.approx(result.precision.tolist())
    objective = r2et.objectives.R2ET(
        k=3,
        gap=1.0,
        curvature=0.1,
        pairs="all",
        boundary_pairs=None,
        scale_free=False,
        reference=None,
        direction=None,
        every=1,
        curvature_fraction=1.0,
    )
    assert objective(model, x, y).ndim == 0
