"""Cutting the ball: more is proven, nothing that is not so."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from r2et.certificates import branching
from r2et.certificates.branching import branched
from r2et.certificates.dual_bounds import ascended, started
from tests.certificates.test_dual_bounds import ACTIVATIONS, TRAITS, searched, ugly

every = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])


def cases(every, margin=0.02):
    """Functionals, and the smallest values that a search finds: 0.02 for half of them, -0.02 for the others.

    Each activation with one of the traits, or with every one.
    """
    for number, module in enumerate(ACTIVATIONS):
        for trait in TRAITS[:4] if every else (TRAITS[number % 4],):
            terms = ugly(module, trait, count=40, hidden=4, n=3)
            near = torch.where(torch.arange(40) % 2 == 0, margin, -margin)
            # a constant moves all values alike: what is found next to it is searched for once
            yield replace(terms, constant=terms.constant - searched(terms) + near), near


@every
def test_branches_prove_more_and_nothing_that_a_search_contradicts(every):
    more = 0
    for terms, lowest in cases(every):
        proof = ascended(terms, started(terms), 12)
        proven = branched(terms, proof, 12)
        assert not (proven & (lowest <= 0)).any()
        assert (proven >= (proof.value > 0)).all()
        more += int((proven & ~(proof.value > 0)).sum())
    assert more > 10


def test_no_budget_proves_what_the_bound_does():
    terms = ugly(nn.Softplus(5.0), "plain", count=40)
    proof = ascended(terms, started(terms), 12)
    assert torch.equal(branched(terms, proof, 0), proof.value > 0)


def test_what_a_search_finds_moves_with_the_constant():
    terms, lowest = next(cases(every=False))
    assert torch.allclose(searched(terms), lowest.double(), atol=1e-8)


@every
def test_a_branch_that_is_forgotten_is_caught(every, monkeypatch):
    """Where only the lower one of two branches counts, functionals are called positive that are not."""
    monkeypatch.setattr(branching._Leaves, "done", property(lambda self: (self.value > 0).any(1)))
    wrong = 0
    for terms, lowest in cases(every):
        proof = ascended(terms, started(terms), 4)
        wrong += int((branched(terms, proof, 12) & (lowest <= 0)).sum())
    assert wrong > 0
