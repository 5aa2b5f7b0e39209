"""How encoded features make up the columns of a table."""

import numpy as np
import pytest
import torch

from r2et import Columns, Domain
from r2et.errors import InputError
from tests.tables_with_traps import COLUMNS, table


def test_every_feature_has_one_owner():
    assert COLUMNS.owner.tolist() == [0, 1, 2, 3, 3, 3, 4, 5, 5, 6]
    assert COLUMNS.continuous.tolist() == [True] * 3 + [False] * 7
    assert len(COLUMNS) == 7
    assert COLUMNS.n == 10
    assert repr(COLUMNS) == "Columns(3 numbers, 2 flags, 2 categories; 10 features)"


def test_a_typical_row_can_exist():
    assert COLUMNS.typical.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 1, 1]
    COLUMNS.check_rows(COLUMNS.typical[None])


def test_what_is_discrete_is_frozen():
    domain = COLUMNS.domain()
    assert tuple(domain.frozen) == (6, 9)
    assert domain.reach("domain", 10).movable.tolist() == COLUMNS.continuous.tolist()
    assert tuple(map(tuple, domain.groups)) == ((3, 4, 5), (7, 8))


def test_frequencies_are_counted():
    x = table(50)
    names = ("age", "pay", "hours", "job: a", "job: b", "job: c", "smokes", "home: x", "home: y", "owns")
    columns = Columns.from_rows(x, COLUMNS.domain(), names=names)
    assert columns.names == COLUMNS.names
    assert columns.features == COLUMNS.features
    assert columns.kinds == COLUMNS.kinds
    for number, (features, kind) in enumerate(zip(columns.features, columns.kinds, strict=True)):
        ones = [float((x[:, i] == 1).sum()) / 50 for i in features]
        expected = {"number": (), "flag": (1 - ones[0], ones[0]), "category": tuple(ones)}[kind]
        np.testing.assert_allclose(columns.frequencies[number], expected, atol=1e-12)


def test_what_is_not_frozen_is_a_number_though_it_is_0_or_1():
    x = table(20)
    columns = Columns.from_rows(x, Domain(groups=[[3, 4, 5], [7, 8]], frozen=[6]))
    assert columns.kinds == ("number", "number", "number", "category", "flag", "category", "number")
    assert columns.names[3] == "feature 3 / feature 4 / feature 5"


@pytest.mark.parametrize(
    ("feature", "value", "words"),
    [
        (3, 0.5, ("row 2", "'job'", "exactly one")),
        (4, 7.0, ("row 2", "'job'")),
        (6, 0.5, ("row 2", "flag 'smokes'", "0 or 1")),
    ],
)
def test_a_row_that_cannot_exist_is_named(feature, value, words):
    x = table(4)
    x[2, feature] = value
    with pytest.raises(InputError) as caught:
        COLUMNS.check_rows(x)
    for word in words:
        assert word in str(caught.value)


def test_no_category_at_all_is_no_row_either():
    x = table(4)
    x[1, 3:6] = 0
    with pytest.raises(InputError, match=r"row 1 has no valid value of the category 'job'.* 0, 0, 0"):
        COLUMNS.check_rows(x)
    with pytest.raises(InputError, match="row 1"):
        Columns.from_rows(x, COLUMNS.domain())


def test_features_that_are_always_the_same_are_one_column():
    columns = Columns(("age", "missing"), ((0,), (1, 2)), ("number", "flag"), ((), (0.5, 0.5)))
    columns.check_rows(torch.tensor([[0.3, 1.0, 1.0], [0.1, 0.0, 0.0]]))
    assert columns.domain().equal == ((1, 2),)
    with pytest.raises(InputError, match=r"row 0 has no valid value of the flag 'missing'.*same"):
        columns.check_rows(torch.tensor([[0.3, 1.0, 0.0]]))


def test_a_category_of_one_value():
    columns = Columns(("age", "land"), ((0,), (1,)), ("number", "category"), ((), (1.0,)))
    columns.check_rows(torch.tensor([[0.3, 1.0]]))
    assert columns.typical.tolist() == [0, 1]
    with pytest.raises(InputError, match="'land'"):
        columns.check_rows(torch.tensor([[0.3, 0.0]]))
