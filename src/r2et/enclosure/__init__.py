"""Interval enclosures of a network's values, first and second derivatives on L2 balls."""

from r2et.enclosure.activations import register
from r2et.enclosure.ball import Ball, march
from r2et.enclosure.box import Box
from r2et.enclosure.network import Network
from r2et.enclosure.ranges import EnclosedActivation, Smooth, extent
from r2et.enclosure.reading import extract

__all__ = ["Ball", "Box", "EnclosedActivation", "Network", "Smooth", "extent", "extract", "march", "register"]
