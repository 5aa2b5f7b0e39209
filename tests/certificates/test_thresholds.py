"""The search over thresholds: what is on lists, and what little effort or missing columns would cost."""

import torch

from r2et.certificates import certify, thresholds
from r2et.certificates.thresholds import Effort, Lists
from r2et.enclosure.feature_pairs import FeaturePairs
from r2et.enclosure.tables import MINUS, PLUS, SIZE
from tests.certificates.test_additive import net
from tests.models_with_answers import normal


def test_lists_know_which_function_has_to_fall():
    values = torch.tensor([[-3.0, 2.0, 1.0, -0.5]])
    blur = torch.full_like(values, 0.1)
    for opposite, kinds in ((False, [MINUS, PLUS, SIZE, SIZE]), (True, [PLUS, MINUS, SIZE, SIZE])):
        lists = Lists.of(FeaturePairs.lists(values, 2, signed=False), values, blur, torch.tensor([opposite]))
        assert lists.kind[0].tolist() == kinds
    torch.testing.assert_close(lists.worth, torch.tensor([[2.9, 1.9, 1.1, 0.6]]))
    weakest, strongest = lists.thresholds()
    torch.testing.assert_close(weakest, torch.tensor([[1.9, 2.9]]))
    torch.testing.assert_close(strongest, torch.tensor([[1.1, 0.6]]))


def test_columns_that_do_not_matter_change_nothing(monkeypatch):
    model, x = net(9, seed=3), normal(20, 9, seed=4)
    found = certify(model, x, 3).limits
    monkeypatch.setattr(thresholds, "TYPICAL", 0.0)
    assert torch.equal(certify(model, x, 3).limits, found)
    monkeypatch.setattr(thresholds, "_columns_that_matter", lambda least, *_: torch.ones_like(least[..., 0]) > 0)
    torch.testing.assert_close(certify(model, x, 3).limits, found, rtol=2e-3, atol=0)


def test_less_effort_is_sound_and_farther_off(monkeypatch):
    model, x = net(6, seed=5), normal(20, 6, seed=6)
    found = certify(model, x, 2).radius
    monkeypatch.setattr(thresholds, "WHOLE", Effort(1, 1, 1e-5))
    less = certify(model, x, 2).radius
    assert (less <= found * (1 + 1e-5)).all()
    assert (less < found * (1 - 1e-4)).any()
