"""What attacks know about a model is found out once, however many attacks, radii and chunks there are."""

import sys
from collections import Counter

import pytest
import torch
from torch import nn

import r2et
from r2et.attacks import WorstCase
from r2et.attacks.guides import SCHEDULES
from r2et.attacks.inspected import InspectedModel
from tests.little_effort import quick_audits_here  # noqa: F401 - a fixture
from tests.models_with_answers import mlp, normal


def count_calls(monkeypatch, name, *modules):
    """How often a function is called, by the identity of its first argument, in the modules that use it."""
    calls = Counter()
    real = getattr(modules[0], name)
    kept = []  # an object that is gone could lend its number to another one

    def counted(thing, *rest, **options):
        kept.append(thing)
        calls[id(thing), *map(str, rest[:1] if name == "smooth" else ())] += 1
        return real(thing, *rest, **options)

    for module in modules:
        monkeypatch.setattr(module, name, counted)
    return calls


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
def test_an_audit_of_twelve_rows_looks_once_at_each_thing(activation, monkeypatch):
    model, x = mlp(activation=activation), normal(12, 6, seed=4)
    inspections = count_calls(monkeypatch, "piecewise_linear", r2et.validate)
    copies = count_calls(monkeypatch, "smooth", r2et.validate)
    r2et.audit(model, x, torch.arange(12) % 2, k=2, radii=(0.1, 0.2), budget="standard", steps=2)
    # the model, and of its copies one
    assert sorted(inspections.values()) == ([1, 1] if activation is nn.ReLU else [1])
    # the sharpnesses of the worst case, among which are those of the nearest flip, each of them once
    assert set(copies.values()) == {1}
    assert len(copies) == len({beta for schedule in SCHEDULES for beta in schedule})


def test_the_clean_logits_of_a_chunk_are_checked_once_for_all_attacks_and_radii(monkeypatch):
    import r2et.attacks.task

    model, x = mlp(activation=nn.ReLU), normal(12, 6, seed=4)
    checked = count_calls(monkeypatch, "check_logits", r2et.attacks.task)
    r2et.audit(model, x, torch.arange(12) % 2, k=2, radii=(0.1, 0.2), budget="fast", steps=2, chunk_size=6)
    # of each chunk once, and once more where its bracket judges what was found in float64
    assert list(checked.values()) == [1, 1, 1, 1]


def test_chunks_and_radii_share_what_is_known(monkeypatch):
    model, x = mlp(activation=nn.ReLU), normal(5, 6, seed=4)
    inspections = count_calls(monkeypatch, "piecewise_linear", r2et.validate)
    WorstCase(k=2, radius=0.3, budget="fast")(model, x, chunk_size=2, radii=[0.1, 0.3])
    assert sorted(inspections.values()) == [1, 1]


def test_a_smooth_net_is_its_own_surrogate_unless_a_copy_is_asked_for():
    model = mlp(activation=nn.Tanh)
    inspected = InspectedModel(model, normal(5, 6))
    assert inspected.surrogate(None) is model
    # nothing in it is replaced
    assert inspected.surrogate(3.0) is model


def test_a_sharp_softplus_has_softer_copies():
    model = nn.Sequential(nn.Linear(6, 4), nn.Softplus(beta=1000.0), nn.Linear(4, 2)).double()
    inspected = InspectedModel(model, normal(5, 6))
    assert inspected.surrogate(None) is inspected.surrogate(2000.0) is model
    assert inspected.surrogate(3.0) is inspected.surrogate(3.0)
    assert inspected.surrogate(3.0)[1].beta == 3.0
    assert inspected.surrogate(3.0) is not inspected.surrogate(4.0)


def test_a_layer_that_no_copy_replaces_is_said_once():
    model = nn.Sequential(nn.Linear(6, 4), nn.RReLU(), nn.Linear(4, 2)).double().eval()
    inspected = InspectedModel(model, normal(5, 6))
    with pytest.warns(UserWarning, match="cannot replace") as caught:
        copies = [inspected.surrogate(beta) for beta in (3.0, 10.0)]
    assert len(caught) == 1
    assert copies[0] is copies[1] is model


def test_all_checks_of_logits_in_an_audit_do_not_grow_with_attacks_and_radii(monkeypatch):
    """One for each part that looks at the rows: it was 47 for twelve rows, and more with every radius."""
    model, x = mlp(activation=nn.ReLU), normal(12, 6, seed=4)
    users = [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith("r2et.") and hasattr(module, "check_logits")
    ]
    checked = count_calls(monkeypatch, "check_logits", *users)
    totals = []
    for radii in ((0.1,), (0.1, 0.2, 0.3)):
        checked.clear()
        r2et.audit(model, x, torch.arange(12) % 2, k=2, radii=radii, budget="fast", steps=2)
        totals.append(checked.total())
    assert totals[0] == totals[1] <= 12
