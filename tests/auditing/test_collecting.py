import pytest

from r2et import audit
from r2et.attacks import BoundaryAttack
from tests.auditing.toys import X, Y


def test_two_attacks_of_one_class_have_numbers(fragile):
    given = [BoundaryAttack(k=2, radius=1.0, steps=5, loss=loss) for loss in ("hinge", "soft")]
    found = audit(fragile, X, Y, k=2, radii=(0.5,), budget="fast", attacks=given)
    assert [row.attack for row in found.attacks][1:3] == ["BoundaryAttack 1", "BoundaryAttack 2"]


def test_faithfulness_of_chunks_is_weighted_by_their_rows(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 2, "certificate": False, "attacks": []}
    chunked = audit(fragile, X, Y, chunk_size=20, **options)  # 20 rows and 4
    parts = [audit(fragile, X[rows], Y[rows], **options).faithfulness for rows in (slice(20), slice(20, 24))]
    assert parts[0] != pytest.approx(parts[1])
    for name, value in chunked.faithfulness.items():
        assert value == pytest.approx((20 * parts[0][name] + 4 * parts[1][name]) / 24)
