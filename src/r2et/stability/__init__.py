"""Ranking thickness over neighbourhoods, and its bounds (Sec. 4.1, Prop. 4.4)."""

from r2et.stability.bounds import ThicknessBounds, thickness_bounds
from r2et.stability.neighbours import (
    AdversarialNeighbours,
    Aggregate,
    GaussianNeighbours,
    Neighbours,
    UniformNeighbours,
)
from r2et.stability.ranking_thickness import Variant, pairwise_thickness, path_explanations, thickness

__all__ = [
    "AdversarialNeighbours",
    "Aggregate",
    "GaussianNeighbours",
    "Neighbours",
    "ThicknessBounds",
    "UniformNeighbours",
    "Variant",
    "pairwise_thickness",
    "path_explanations",
    "thickness",
    "thickness_bounds",
]
