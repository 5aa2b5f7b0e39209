"""What attacks changed, in a person's own units: against a model whose lists are known in closed form."""

import itertools

import pytest
import torch

from r2et.auditing.own_rows import REMEMBERED, OwnRows, column_of, join_moves, moves, moves_of
from r2et.tables.units import ColumnUnits, Units
from tests.models_with_answers import normal
from tests.tables_in_units import INCOMES, UNITS, audited, rows


@pytest.fixture(scope="module")
def audit():
    return audited()


def test_who_is_given_another_list_is_known(audit):
    assert audit.samples.precision[0].tolist() == [1.0] * 6
    assert audit.samples.precision[1].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]


def test_the_change_is_told_in_whole_units_and_is_large_enough(audit):
    for person, direction in ((2, 1), (3, 1), (4, -1)):
        changes = {change.column: change for change in audit.own.changes(person, 1)}
        income = changes["Income"]
        was = 2000 + 500 * INCOMES[person]
        assert income.was == f"{was:.0f}"
        # |z_0| crosses 1, which is an income of 2500, inside the radius of 250
        assert direction * (int(income.becomes) - 2500) >= 0
        assert abs(int(income.becomes) - was) <= 250
        assert "Records" not in changes
        assert changes.keys() <= {"Income", "Age"}


def test_changes_below_the_resolution_are_not_mentioned():
    x = rows().x
    for share, seen in ((0.4, 0), (0.6, 1)):
        point = x.clone()
        point[:, 0] += share / 500
        told = OwnRows(UNITS, x, moves(UNITS, x, [point]))
        assert [len(told.changes(row, 0)) for row in range(len(x))] == [seen] * len(x)


def test_changes_are_sorted_by_their_size_and_counted():
    count = 14
    units = Units(tuple(ColumnUnits(f"c{i}", "number", (i,), scale=10.0**i, step=0.0) for i in range(count)))
    x, by = normal(5, count, seed=1), normal(5, count, seed=2)
    told = OwnRows(units, x, moves(units, x, [x, x + by]))
    for row in range(5):
        assert told.changes(row, 0) == ()
        names = [int(change.column[1:]) for change in told.changes(row, 1)]
        assert names == by[row].abs().argsort(descending=True)[:REMEMBERED].tolist()
        assert told.more(row, 1) == count - REMEMBERED


def test_parts_join_to_the_whole():
    x, points = rows().x, [rows().x + 0.5, rows().x - 0.25]
    whole = moves(UNITS, x, points)
    halves = [moves(UNITS, x[part], [point[part] for point in points]) for part in (slice(0, 2), slice(2, 6))]
    joined = join_moves(halves)
    for name in ("columns", "becomes", "count"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))


def test_chunks_change_nothing(audit):
    chunked = audited(chunk_size=2)
    for row, radius in itertools.product(range(6), range(2)):
        assert chunked.own.changes(row, radius) == audit.own.changes(row, radius)


@pytest.mark.parametrize("threat", ["tangent", "paper"])
def test_rows_that_cannot_exist_are_not_decoded(threat):
    audit = audited(threat=threat)
    assert audit.own.moves is None
    assert audit.own.changes(3, 1) == ()
    assert audit.own.more(3, 1) == 0
    assert audit.changes().empty


def test_units_of_another_table_are_not_used():
    assert moves_of(UNITS, "domain", torch.zeros(2, 4), [torch.zeros(2, 4)]) is None
    assert moves_of(None, "domain", rows().x, [rows().x]) is None


def test_what_is_ranked_belongs_to_a_column():
    units = Units(
        (ColumnUnits("a", "number", (0,), missing=1), ColumnUnits("b", "category", (2, 3), values=("x", "y")))
    )
    own = OwnRows(units, torch.zeros(1, 4))
    assert [column_of(own, i, 2) for i in range(2)] == [0, 1]
    assert [column_of(own, i, 4) for i in range(4)] == [0, 0, 1, 1]
    assert column_of(own, 0, 7) is None  # neurons are no columns
    assert column_of(None, 0, 2) is None
