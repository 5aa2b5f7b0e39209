"""The individuality of audited lists, against counting over the rows of the same audit."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import nn

from r2et import Domain, audit
from r2et.auditing.lists import KappaBracket, individuality_clause, lists_in_words, movable_features
from r2et.columns import Columns
from r2et.explainers import Activation, ColumnEffects, Gradient
from r2et.individuality import Individuality, Kappa
from tests.auditing.toys import RADII, X, Y, strict_json
from tests.models_with_answers import linear, mlp

QUICK = {"radii": RADII, "budget": "fast", "steps": 2, "attacks": []}


def shared(lists):
    """The mean P@k of two rows, one pair after the other."""
    named = [set(row.tolist()) for row in lists]
    pairs = [len(a & b) / len(a) for a, b in combinations(named, 2)]
    return sum(pairs) / len(pairs)


def test_brackets_are_of_the_rows_of_the_audit(report):
    overlap = shared(report.samples.top.squeeze(1))
    assert report.individuality.overlap == pytest.approx(overlap)
    assert [bracket.radius for bracket in report.kappas] == list(RADII)
    for bracket in report.kappas:
        (attacked,) = [value for radius, value in report.curve("WorstCase") if radius == bracket.radius]
        proven = report.certified_precision(bracket.radius)
        assert bracket.attacked.value == pytest.approx((attacked - overlap) / (1 - overlap), abs=1e-6)
        assert bracket.proven.value == pytest.approx((proven - overlap) / (1 - overlap), abs=1e-6)
        assert bracket.proven.value <= bracket.attacked.value
        assert bracket.attacked.low <= bracket.attacked.value <= bracket.attacked.high


def test_nothing_is_proven_unless_all_rows_are(fragile):
    found = audit(fragile, X, Y, k=2, certificate=False, **QUICK)
    assert all(bracket.proven is None for bracket in found.kappas)
    assert "kappa: at most" in found.summary()


def test_chunks_have_the_individuality_of_the_whole(fragile):
    whole, chunked = (audit(fragile, X, Y, k=2, chunk_size=size, **QUICK) for size in (None, 7))
    assert chunked.to_dict()["individuality"] == whole.to_dict()["individuality"]


@pytest.mark.parametrize("reduce", ["abs", "signed"])
def test_two_linear_classes_have_one_list_for_everybody(reduce):
    found = audit(linear(), X, Y, k=2, explainer=Gradient(reduce=reduce), **QUICK)
    assert found.kappas == ()
    assert found.individuality.one_for_everybody
    assert found.to_dict()["individuality"]["kappa"] is None
    assert "one list for everybody" in " ".join(found.verdict().split())
    assert "one list for everybody, no kappa" in " ".join(found.summary().split())


def test_a_fragile_model_has_lists_of_its_own(report):
    assert not report.individuality.one_for_everybody
    assert "one list for everybody" not in " ".join(report.summary().split())
    assert f"kappa {report.kappas[-1].in_words().removesuffix(' at 2')})." not in report.verdict()
    assert f"kappa {report.kappas[-1].in_words().removesuffix(' at 2')}." in report.verdict()
    figures = report.to_dict()["individuality"]
    assert strict_json(figures) == figures == report.to_frame().attrs["individuality"]
    assert figures["kappa"][0]["attacked"]["value"] == report.kappas[0].attacked.value


def test_chance_stands_below_the_precisions(report):
    (line,) = [line for line in report.summary().splitlines() if line.startswith("by chance")]
    heading = next(line for line in report.summary().splitlines() if line.startswith("attack "))
    assert line.split()[-1] == f"{100 * 2 / 6:.1f}"
    assert len(line) == heading.index("P@2") + 3


def test_the_share_that_can_move_follows_the_domain(fragile):
    frozen = audit(fragile, X, Y, k=2, domain=Domain(frozen=[0, 1, 2]), **QUICK)
    listed = frozen.samples.top >= 3
    assert frozen.movable == pytest.approx(float(listed.double().mean()))
    assert 0 < frozen.movable < 1
    assert f"{100 * frozen.movable:.1f} % of what they name can be moved" in " ".join(frozen.summary().split())
    assert "can be moved" not in audit(fragile, X, Y, k=2, **QUICK).summary()


def test_pixels_move_if_one_of_their_channels_does():
    images = torch.zeros(2, 3, 2, 2)
    free = Domain(frozen=[0, 4, 8, 1]).reach("domain", 12).movable
    movable = movable_features(free, Gradient(reduce="abs-sum"), images, 4)
    assert movable.tolist() == [False, True, True, True]
    assert movable_features(free, Activation(layer="0"), images, 5) is None


def test_a_column_moves_if_one_of_its_features_does():
    columns = Columns(
        ("age", "job", "own"), ((0,), (1, 2), (3,)), ("number", "category", "flag"), ((), (0.5, 0.5), (0.5, 0.5))
    )
    free = Domain(frozen=[3], groups=[[1, 2]]).reach("domain", 4).movable
    assert movable_features(free, ColumnEffects(columns=columns), X[:, :4], 3).tolist() == [True, False, False]


def test_a_single_row_is_compared_with_none(fragile):
    found = audit(fragile, X[:1], Y[:1], k=2, **QUICK)
    assert "list" not in found.verdict()
    assert "no other to compare it with" in found.summary()
    assert strict_json(found.to_dict())["individuality"]["overlap"] is None


def test_too_few_rows_for_an_interval_have_none():
    assert KappaBracket(1.0, None, Kappa(0.5, float("nan"), float("nan"))).in_words() == "at most 0.50 at 1"


def test_each_member_of_a_pair_has_a_list():
    class Apart(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = mlp(seed=1, activation=nn.Tanh)

        def forward(self, x):
            return self.net(x[:, 0]) + self.net(x[:, 1])

    pairs = torch.stack([X[:12], X[12:]], dim=1)
    found = audit(Apart(), pairs, Y[:12], k=2, explainer=Gradient(inputs=2), **QUICK)
    assert found.individuality.total == 24
    by_position = [shared(lists) for lists in found.samples.top.unbind(1)]
    assert found.individuality.overlap == pytest.approx(sum(by_position) / 2)


def test_a_single_pair_is_compared_with_none():
    alone = Individuality.of(torch.tensor([[[0, 1], [2, 3]]]), 5)
    assert lists_in_words(alone, (), 1.0) == ["lists: 2, of which no two can be compared"]
    assert individuality_clause(alone, None) == ""


def test_one_list_per_class_is_said_beside_its_kappa():
    classes = torch.arange(20) % 2
    lists = torch.tensor([[0, 1], [2, 3]])[classes]
    bracket = KappaBracket(1.0, None, Kappa(1.0, 1.0, 1.0))
    for known, said in ((classes, True), (None, False)):
        everybody = Individuality.of(lists, 5, classes=known)
        words, kappa = lists_in_words(everybody, [bracket], 1.0)
        assert words.endswith(": one list for each predicted class") == said
        assert kappa == f"kappa: {bracket.in_words()}"
        clause = individuality_clause(everybody, bracket)
        assert f"kappa {bracket.in_words().removesuffix(' at 1')}" in clause
        assert clause.startswith("It is one list for each predicted class") == said
        assert clause.startswith("The lists differ between inputs: 2.0 in effect for 20") != said


def test_words_are_of_the_figures_they_are_handed(report):
    text = " ".join(lists_in_words(report.individuality, report.kappas, 0.5))
    assert f"{report.individuality.distinct} distinct of 24" in text
    assert "50.0 % of what they name can be moved" in text
    assert replace(report, movable=0.5).to_dict()["individuality"]["movable"] == 0.5
