"""Attacks on the top-k set: small perturbations that change the explanation and not the prediction."""

from r2et.attacks.base import Attack, AttackResult
from r2et.attacks.domain import Domain
from r2et.attacks.pgd import ERAttack, MSEAttack

__all__ = ["Attack", "AttackResult", "Domain", "ERAttack", "MSEAttack"]
