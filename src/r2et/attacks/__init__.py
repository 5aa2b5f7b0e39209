"""Attacks on the top-k set: small perturbations that change the explanation and not the prediction."""

from r2et.attacks.attack import ATTACKS, Attack
from r2et.attacks.best import Best
from r2et.attacks.boundary import BoundaryAttack
from r2et.attacks.constraints import ConstrainedAttack
from r2et.attacks.judge import Evaluation, Judge
from r2et.attacks.minimal import MinimalFlip
from r2et.attacks.next_feature import NextFeatureAttack
from r2et.attacks.noise import NoiseAttack
from r2et.attacks.pgd import ERAttack, GradientDescentAttack, MSEAttack
from r2et.attacks.random_search import RandomSearchAttack
from r2et.attacks.result import AttackResult
from r2et.attacks.task import Task
from r2et.attacks.trust_region import TrustRegion
from r2et.attacks.worst_case import WorstCase

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "Best",
    "BoundaryAttack",
    "ConstrainedAttack",
    "ERAttack",
    "Evaluation",
    "GradientDescentAttack",
    "Judge",
    "MSEAttack",
    "MinimalFlip",
    "NextFeatureAttack",
    "NoiseAttack",
    "RandomSearchAttack",
    "Task",
    "TrustRegion",
    "WorstCase",
]
