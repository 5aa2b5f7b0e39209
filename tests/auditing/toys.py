"""Rows that the tests of audits share."""

import json

from tests.models_with_answers import normal

X = normal(24, 6, seed=3)
Y = (X[:, 0] > 0).long()
RADII = (0.5, 2.0)


def no_constants(text: str) -> float:
    raise AssertionError(f"{text} is not JSON")


def strict_json(content: object) -> object:
    """Through text and back, without Python's own NaN and Infinity."""
    return json.loads(json.dumps(content), parse_constant=no_constants)
