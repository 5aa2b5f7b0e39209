import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn

import r2et
from r2et import audit, metrics, models
from r2et.attacks import ERAttack, NoiseAttack
from r2et.auditing.chunks import run
from r2et.auditing.collecting import collect
from r2et.auditing.planning import Options, make_plan
from r2et.errors import InputError
from tests.auditing.toys import RADII, X, Y
from tests.models_with_answers import linear, normal


def test_attacks_of_ones_own_stand_beside_noise_and_the_worst_case(fragile):
    given = ["boundary", ERAttack, NearMiss(k=1, radius=9.0, norm="linf", keep="last")]
    found = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=7, seed=4, attacks=given)
    names = ["NoiseAttack", "BoundaryAttack", "ERAttack", "NearMiss", "WorstCase"]
    assert [row.attack for row in found.attacks] == names * 2
    rows = {(row.attack, row.radius): row for row in found.attacks}
    expected = ERAttack(k=2, radius=2.0, steps=7)(fragile, X, seed=4, radii=RADII)[1]
    assert rows["ERAttack", 2.0].precision == pytest.approx(float(expected.precision.mean()))
    for radius in RADII:
        assert rows["WorstCase", radius].precision <= min(rows[name, radius].precision for name in names)
        assert rows["NearMiss", radius].distance <= radius + 1e-6
    assert found.settings.recipe == "WorstCase of WorstCase-2, BoundaryAttack, ERAttack, NearMiss"
    assert max(len(line) for line in found.summary().splitlines() if "NearMiss" in line) <= 80
    assert "Quote the attack as WorstCase of WorstCase-2, BoundaryAttack" in page(found)
    assert "MSE" not in page(found).split("All attacks in figures")[1].split("How to cite")[0]


@dataclass(frozen=True, kw_only=True)
class NearMiss(NoiseAttack):
    """A thousandth of the budget along the first feature."""

    def run(self, task, judge, best):
        step = torch.zeros_like(task.x)
        step[:, 0] = 1e-3 * self.radius
        best.submit(judge.evaluate(task.project(task.x + step)))


def page(found: r2et.auditing.Audit) -> str:
    with tempfile.TemporaryDirectory() as folder:
        r2et.report.write(found, f"{folder}/page.html")
        return Path(folder, "page.html").read_text()


def test_no_attacks_but_the_two_that_are_always_there(fragile, report):
    found = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", seed=4, attacks=[])
    assert found.attacks == [row for row in report.attacks if row.attack in ("NoiseAttack", "WorstCase")]
    assert found.settings.recipe == "WorstCase-2"
    assert (found.settings.own_attacks, report.settings.own_attacks) == (True, False)
    assert report.settings.recipe == "WorstCase-2"


@pytest.mark.parametrize(
    ("attacks", "message"),
    [
        ("er", "attacks must be a list such as .* got attacks='er'"),
        (5, "got attacks=5"),
        (["err"], "unknown attack 'err': did you mean 'er'"),
        (["worst-case"], "WorstCase is in every audit: leave it out"),
        ([NoiseAttack(k=2, radius=1.0)], "NoiseAttack is in every audit"),
        ([nn.Linear], "must be a complete subclass"),
    ],
)
def test_attacks_that_are_none(fragile, attacks, message):
    with pytest.raises(InputError, match=message):
        audit(fragile, X, Y, k=2, attacks=attacks)


# --- the plan runs nothing --------------------------------------------------------------------------------------


class Counting(nn.Module):
    """A linear model that counts how often it is run."""

    def __init__(self):
        super().__init__()
        self.inner, self.runs = nn.Linear(6, 2).double(), 0

    def forward(self, x):
        self.runs += 1
        return self.inner(x)


def options(**changes):
    chosen = dict.fromkeys(
        (
            "radii",
            "domain",
            "threat",
            "chunk_size",
            "feature_names",
            "class_names",
            "row_names",
            "layout",
            "attacks",
        )
    )
    chosen |= {"k": 2, "explainer": r2et.explainers.Gradient(), "steps": 3, "budget": "fast", "seed": 0}
    return Options(**(chosen | {"progress": False, "name": "", "certificate": True} | changes))


def test_a_plan_does_not_run_the_model():
    model = Counting()
    plan = make_plan(model, X, Y, options(radii=(2.0, 0.5, 2.0)))
    assert model.runs == 0
    assert plan.radii == (0.5, 2.0)
    assert plan.settings.radii == (2.0, 0.5, 2.0), "as they were asked for"
    assert plan.settings.thickness_sigma == pytest.approx(0.5 / 6**0.5)
    run(plan)
    assert model.runs > 0, "a model that is run is counted"


def test_what_is_collected_needs_no_model():
    model = Counting()
    plan = make_plan(model, X, Y, options(radii=(0.5,)))
    result = run(plan)
    before = model.runs
    found = collect(plan, result)
    assert model.runs == before
    assert found.auc == metrics.auc(model, X, Y)
    assert found.settings == replace(plan.settings, uncertified=result.uncertified)


@pytest.mark.parametrize("name", ["k", "steps", "seed"])
def test_numbers_of_other_libraries_become_python_s(name):
    checked = options(**{name: torch.tensor(3)}).checked()
    assert type(getattr(checked, name)) is int


def test_rows_at_once_are_limited_by_their_size():
    wide = normal(20, 2**14)
    assert make_plan(models.Linear(2**14, 2).double(), wide, Y[:20], options()).chunk == 8
    assert make_plan(linear(), X, Y, options()).chunk == 512
    assert make_plan(linear(), X, Y, options(chunk_size=5)).chunk == 5


def test_rows_are_called_by_their_names():
    chosen = {"k": 2, "radii": (0.5,), "budget": "fast", "attacks": [], "certificate": False}
    found = audit(linear(), X[:3], Y[:3], row_names=[7, "b", "c"], **chosen)
    assert found.samples.row_names == ("7", "b", "c")
    frame = pd.DataFrame(X[:3].numpy(), index=["x", "y", "z"])
    assert make_plan(linear(), frame, Y[:3], options()).row_names == ("x", "y", "z")
    assert make_plan(linear(), frame, Y[:3], options(row_names=[1, 2, 3])).row_names == ("1", "2", "3")


@pytest.mark.parametrize(
    ("names", "message"),
    [(["a"], "1 row names for 24 rows"), ("abc", "row_names='abc'"), (5, "row_names=5")],
)
def test_bad_names_of_rows(names, message):
    with pytest.raises(InputError, match=message):
        audit(linear(), X, Y, k=2, row_names=names)


def test_columns_that_look_like_a_category_are_named():
    codes = torch.arange(24) % 3
    x = torch.cat([torch.randn(24, 2, generator=torch.Generator().manual_seed(0)), torch.eye(3)[codes]], 1)
    model = nn.Linear(5, 2)

    def notes(x, **changes):
        return make_plan(model, x, torch.zeros(len(x), dtype=torch.int64), options(**changes)).notes

    (note,) = notes(x)
    assert "feature 2, feature 3, feature 4 look like one category" in note
    assert "groups=[[2, 3, 4]]" in note
    assert notes(x, domain=r2et.Domain(groups=[[2, 3, 4]])) == ()
    # a sum that one row breaks is none, and in a few rows any may hold by chance
    broken = x.clone()
    broken[5, 2:] = 0
    assert notes(broken) == ()
    assert notes(x[:12]) == ()


def test_contributions_to_the_score_are_attacked_not_those_to_the_probability():
    """The latter are no sums over columns: each of them would be sampled, at every step."""
    columns = r2et.Columns(("a", "b", "c"), ((0,), (1,), (2,)), ("number",) * 3, ((),) * 3)
    explainer = r2et.explainers.Contributions(
        columns=columns, background=r2et.explainers.Background([[0.0, 0.0, 0.0]])
    )
    for explanation, score in ((explainer, "log-odds"), (r2et.explainers.Gradient(), "probability")):
        plan = make_plan(linear(3), normal(4, 3), Y[:4], options(k=2, explainer=explanation))
        assert [attack.score for attack in plan.attacks if isinstance(attack, ERAttack)] == [score]
