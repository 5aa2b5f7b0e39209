"""The hunt: trained nets of every kind, and attacks that look for a changed set inside the certified radius."""

from functools import cache

import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits
from torch import nn

from benchmarks.hunting import boundary_attack, hunt, smallest_flips
from r2et import data
from r2et.certificates import certify
from r2et.explainers import Gradient, GradientTimesInput, SmoothGrad
from tests.covering import covering
from tests.data.files import REAL
from tests.models_with_answers import generator

K = 8
#: rows of each data set that are certified and attacked for every architecture
ROWS = {"breast-cancer": 52, "digits": 12, "adult": 52}
ACTIVATIONS = {
    "softplus 1": nn.Softplus,
    "softplus 5": lambda: nn.Softplus(5.0),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "relu": nn.ReLU,
    "leaky relu": lambda: nn.LeakyReLU(0.1),
}


class Residual(nn.Module):
    def __init__(self, n, classes):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(n, 12), nn.Linear(12, 12), nn.Linear(12, classes)
        self.act, self.direct = nn.SiLU(), nn.Linear(n, classes)

    def forward(self, x):
        h = self.first(x)
        h = h + self.inner(self.act(h))
        return self.last(self.act(h)) + self.direct(x)


def hidden(activation, depth):
    def build(n, classes):
        layers, before = [], n
        for _ in range(depth):
            layers += [nn.Linear(before, 16), ACTIVATIONS[activation]()]
            before = 16
        return nn.Sequential(*layers, nn.Linear(before, classes))

    return build


def averaging(n, classes):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.Softplus(5.0),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(36, classes),
    )


def pooling(n, classes):
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, stride=2), nn.ReLU(), nn.MaxPool2d(2, stride=1), nn.Flatten(), nn.Linear(12, classes)
    )


ARCHITECTURES = {
    **{f"{depth} x {name}": hidden(name, depth) for depth in (1, 2) for name in ACTIVATIONS},
    "residual": Residual,
    "linear": nn.Linear,
    "convolution, average pooling, BatchNorm": averaging,
    "convolution, max-pooling": pooling,
}
#: activations for which another one stands in every run
ALIKE = ("softplus 1", "sigmoid", "silu", "leaky relu")
CASES = [(name, of) for name in ARCHITECTURES for of in ROWS if "conv" not in name or of == "digits"]


@cache
def rows_of(name):
    """Training inputs and labels, and inputs to attack, float64."""
    if name == "adult":
        found = data.load("adult")
        x, y = found.train.x[:4000].double(), found.train.y[:4000]
        return x, y, found.test.x[: ROWS[name]].double()
    made = load_digits() if name == "digits" else load_breast_cancer()
    x, y = torch.tensor(made.data, dtype=torch.float64), torch.tensor(made.target)
    order = torch.randperm(len(x), generator=generator(0))
    x, y = x[order], y[order]
    train = len(x) - ROWS[name]
    x = x / 8 if name == "digits" else (x - x[:train].mean(0)) / x[:train].std(0)
    return x[:train], y[:train], x[train:]


@cache
def trained(architecture, name):
    """A net after a few dozen steps of Adam, and the inputs to attack in its shape."""
    if name == "adult" and not REAL:
        pytest.skip("R2ET_DATA is not set: the real files are not at hand")
    x, y, test = rows_of(name)
    with torch.random.fork_rng():
        torch.manual_seed(sorted(ARCHITECTURES).index(architecture))
        model = ARCHITECTURES[architecture](x.shape[1], int(y.max()) + 1).double()
        if "conv" in architecture:
            x, test = x.reshape(-1, 1, 8, 8), test.reshape(-1, 1, 8, 8)
        optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(60):
            batch = torch.randint(len(x), (256,))
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    for p in model.parameters():
        p.requires_grad_(False)
    return model.eval(), test


def median_ratio(radius, flips):
    known = flips.isfinite()
    return float((radius[known] / flips[known]).median()) if bool(known.any()) else float("nan")


@cache
def examined(architecture, name):
    """The certificate of the gradient and the smallest flips of one case."""
    model, x = trained(architecture, name)
    return certify(model, x, K), smallest_flips(model, x, Gradient(), K)


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        pytest.param(*case.values, marks=pytest.mark.slow) if case.values[0].endswith(ALIKE) else case
        for case in covering(CASES, together=1)
    ],
)
def test_no_attack_changes_the_set_inside_the_radius(architecture, name, record_property):
    model, x = trained(architecture, name)
    certificate, flips = examined(architecture, name)
    assert certificate.sound
    assert not hunt(model, x, certificate.limits, Gradient(), K).any()
    if architecture == "linear" and name != "digits":
        assert certificate.radius.isinf().all()
        assert flips.isinf().all()
        return
    assert (certificate.radius <= flips * (1 + 1e-9)).all()
    assert not boundary_attack(model, x, certificate.radius, Gradient(), K).any()
    ratio = median_ratio(certificate.radius, flips)
    record_property("median certified / smallest attack", ratio)
    assert ratio >= 0.2
    assert float((certificate.radius > 0).double().mean()) > 0.8


@pytest.mark.parametrize("names", [("breast-cancer",), pytest.param(tuple(ROWS), marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "activation",
    [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in ACTIVATIONS],
)
def test_the_same_attacks_succeed_a_little_farther_out(activation, names):
    """Otherwise a hunt that finds nothing would mean nothing."""
    succeeded = []
    for name in [name for name in names if REAL or name != "adult"]:
        model, x = trained(f"1 x {activation}", name)
        certificate, flips = examined(f"1 x {activation}", name)
        farther = hunt(model, x, certificate.limits[:, :1], Gradient(), K, share=1.5)
        succeeded.append(farther | (flips <= 1.5 * certificate.radius))
    assert float(torch.cat(succeeded).double().mean()) > 0.5


def test_the_hunt_is_as_large_as_it_claims():
    assert sum(ROWS[name] for _, name in CASES) >= 2000


EXPLAINERS = {
    "signed": Gradient(reduce="signed"),
    "gradient times input": GradientTimesInput(),
    "gradient times input, signed": GradientTimesInput(reduce="signed"),
    "logit": Gradient(score="logit"),
    "margin": Gradient(score="margin"),
    "probability": Gradient(score="probability"),
    "smoothgrad": SmoothGrad(samples=2, sigma=0.1, score="log-odds"),
    "smoothgrad of a logit": SmoothGrad(samples=2, sigma=0.3, score="logit", reduce="signed"),
}


@pytest.mark.parametrize(
    ("explainer", "architecture", "name", "rows"),
    covering(
        (
            (explainer, *case)
            for explainer in EXPLAINERS
            for case in (
                ("1 x softplus 5", "breast-cancer", 12),
                ("2 x gelu", "breast-cancer", 8),
                ("2 x relu", "breast-cancer", 16),
                ("residual", "digits", 3),
                ("1 x leaky relu", "digits", 3),
                ("convolution, max-pooling", "digits", 3),
                ("linear", "digits", 4),
            )
        ),
        together=1,
    ),
)
def test_other_explanations(explainer, architecture, name, rows):
    model, x = trained(architecture, name)
    x, chosen = x[:rows], EXPLAINERS[explainer]
    certificate = certify(model, x, K, explainer=chosen)
    assert not hunt(model, x, certificate.limits, chosen, K).any()
    assert float((certificate.radius > 0).double().mean()) > 0.5


@pytest.mark.parametrize("architecture", ["1 x softplus 5", "2 x tanh", "2 x relu", "residual", "linear"])
@pytest.mark.parametrize("name", ["breast-cancer", pytest.param("digits", marks=pytest.mark.slow)])
def test_the_prediction_holds_as_well(architecture, name):
    model, x = trained(architecture, name)
    x = x[:12]
    certificate = certify(model, x, K, prediction=True)
    held = certificate.details["prediction"]
    assert (certificate.radius <= held).all()
    assert (held > 0).all()
    clean = model(x).argmax(1)
    closest = torch.full_like(held, torch.inf)
    for share in (0.999, 3.0):
        delta = torch.zeros_like(x)
        for _ in range(15):
            point = (x + delta).requires_grad_()
            logits = model(point)
            margin = logits.gather(1, clean[:, None])[:, 0] - logits.scatter(1, clean[:, None], -1e9).amax(1)
            slope = torch.autograd.grad(margin.sum(), point)[0]
            delta = delta - held[:, None] * share * slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300)
            delta = delta * (share * held / delta.norm(dim=1)).clamp_max(1.0)[:, None]
            lost = model(x + delta).argmax(1) != clean
            if share < 1:
                assert not lost.any()
            closest[lost] = 0.0
    if not architecture.startswith("2"):
        assert float((closest == 0).double().mean()) > 0.5, "three times the radius should be enough for most"
