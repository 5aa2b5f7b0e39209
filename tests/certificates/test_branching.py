"""Cutting the ball: more is proven, nothing that is not so."""

from dataclasses import replace

import torch
from torch import nn

from r2et.certificates import branching
from r2et.certificates.branching import branched
from r2et.certificates.dual_bounds import ascended, started
from tests.certificates.test_dual_bounds import ACTIVATIONS, TRAITS, searched, ugly


def cases(margin=0.02):
    """Functionals that are positive on their balls by a margin at most, half of them; the others are not."""
    for module in ACTIVATIONS:
        for trait in TRAITS[:4]:
            terms = ugly(module, trait, count=40, hidden=4, n=3)
            near = torch.where(torch.arange(40) % 2 == 0, margin, -margin)
            yield replace(terms, constant=terms.constant - searched(terms) + near)


def test_branches_prove_more_and_nothing_that_a_search_contradicts():
    more = 0
    for terms in cases():
        proof = ascended(terms, started(terms), 12)
        proven = branched(terms, proof, 12)
        assert not (proven & (searched(terms) <= 0)).any()
        assert (proven >= (proof.value > 0)).all()
        more += int((proven & ~(proof.value > 0)).sum())
    assert more > 10


def test_no_budget_proves_what_the_bound_does():
    terms = ugly(nn.Softplus(5.0), "plain", count=40)
    proof = ascended(terms, started(terms), 12)
    assert torch.equal(branched(terms, proof, 0), proof.value > 0)


def test_a_branch_that_is_forgotten_is_caught(monkeypatch):
    """Where only the lower one of two branches counts, functionals are called positive that are not."""
    monkeypatch.setattr(branching._Leaves, "done", property(lambda self: (self.value > 0).any(1)))
    wrong = 0
    for terms in cases():
        proof = ascended(terms, started(terms), 4)
        wrong += int((branched(terms, proof, 12) & (searched(terms) <= 0)).sum())
    assert wrong > 0
