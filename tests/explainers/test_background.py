"""The background: synthetic rows that can exist and are nobody's, the same for the same rows and seed."""

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from r2et import Columns
from r2et.errors import InputError
from r2et.explainers import Background
from r2et.explainers.background import LEAST_ROWS
from tests.models_with_answers import normal
from tests.random_tables import random_tables, valid_rows
from tests.tables_with_traps import COLUMNS, table


def numbers(count):
    return Columns(
        tuple(map(str, range(count))), tuple((i,) for i in range(count)), ("number",) * count, ((),) * count
    )


@settings(max_examples=30, deadline=None)
@given(random_tables(), st.integers(1, 60), st.integers(1, 12), st.integers(0, 99))
def test_every_row_of_it_can_exist(drawn, rows, size, seed):
    x = valid_rows(drawn.columns, rows, seed)
    background = Background.from_rows(x, drawn.columns, size=size, seed=seed)
    drawn.columns.check_rows(background.tensor)
    assert 1 <= len(background) <= size
    assert background.tensor.dtype == torch.float64


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 80), st.integers(1, 4), st.integers(1, 64), st.integers(0, 99))
def test_nobody_is_in_it(rows, count, size, seed):
    """A mean of several different numbers is nobody's."""
    x = normal(rows, count, seed=seed)
    background = Background.from_rows(x, numbers(count), size=size, seed=seed).tensor
    assert not (background[:, None] == x[None]).all(2).any()
    assert not (background[:, None] == x[None]).any()


def test_each_row_of_it_stands_for_five_people_or_more():
    """As many clusters as are wanted, and each is the mean of its own: no outlier is a cluster of its own."""
    x = normal(200, 3, seed=1)
    x[:4] += 1000 * torch.arange(1, 5)[:, None]
    background = Background.from_rows(x, numbers(3), size=64).tensor
    apart = torch.cdist(background, x)
    assert apart[:, :4].min() > 300, "whoever is far from all others is in a cluster with them"
    assert len(background) <= len(x) // LEAST_ROWS


def test_of_flags_and_categories_it_may_have_a_combination_that_somebody_has():
    """There are few of them: what it tells is what is most frequent, column by column, among five rows or more."""
    columns = Columns(("a", "b"), ((0,), (1,)), ("flag", "flag"), ((0.5, 0.5), (0.5, 0.5)))
    x = torch.tensor([[0.0, 0.0]] * 3 + [[0.0, 1.0]] * 2 + [[1.0, 0.0]] * 2)
    assert Background.from_rows(x, columns, size=1).tensor.tolist() == [[0.0, 0.0]]
    # here nobody has it
    x = torch.tensor([[0.0, 1.0]] * 4 + [[1.0, 0.0]] * 3 + [[0.0, 1.0]] + [[1.0, 1.0]])
    assert Background.from_rows(x, columns, size=1).tensor.tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("rows", [1, 2, 4, 9])
def test_of_very_few_rows_there_is_one(rows):
    """Of a single row that is the row itself, for there is nothing else to say."""
    x = table(rows)
    background = Background.from_rows(x, COLUMNS)
    assert len(background) == 1
    torch.testing.assert_close(background.tensor[0, :3], x[:, :3].mean(0))


def test_rows_that_are_alike_are_one():
    x = table(3).repeat_interleave(20, dim=0)
    assert len(Background.from_rows(x, COLUMNS)) <= 3
    assert len(Background.from_rows(x[:20], COLUMNS)) == 1


def test_it_is_the_same_for_the_same_rows_whatever_is_drawn_before():
    x = table(300)
    torch.manual_seed(1)
    first = Background.from_rows(x, COLUMNS)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = Background.from_rows(x, COLUMNS)
    assert torch.equal(state, torch.get_rng_state())
    assert first == second
    assert first.sha256 == second.sha256
    assert hash(first) == hash(second)
    assert first != Background.from_rows(x, COLUMNS, seed=3)


def test_its_hash_is_that_of_its_numbers():
    background = Background(((0.0, 1.0), (2.0, 0.0)))
    rows = np.array([[0.0, 1.0], [2.0, 0.0]], dtype="<f8")
    assert background.sha256 == hashlib.sha256(rows.tobytes()).hexdigest()
    assert background.sha256 == Background(torch.tensor([[0.0, 1.0], [2.0, 0.0]])).sha256
    assert background.sha256 == Background(torch.tensor([[0.0, 1.0], [2.0, 0.0]]).double().numpy()).sha256
    assert background.sha256 != Background(((0.0, 1.0), (2.0, 1e-300))).sha256
    assert background.sha256[:8] in repr(background)


def test_it_is_near_the_rows():
    """Nearer to them than a single mean is: its rows are spread as they are."""
    x = table(2000)
    background = Background.from_rows(x, COLUMNS, size=32)
    assert len(background) == 32
    nearest = torch.cdist(x[:, :3], background.tensor[:, :3]).amin(1).mean()
    assert nearest < 0.7 * (x[:, :3] - x[:, :3].mean(0)).norm(dim=1).mean()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "rows=[]"),
        ([[]], "rows of finite numbers"),
        ([[0.0, float("nan")]], "finite"),
        ([[0.0], [0.0, 1.0]], "finite numbers"),
        ("rows", "rows='rows'"),
        (3, "rows=3"),
        (torch.zeros(2), "finite numbers"),
    ],
)
def test_what_is_no_table_is_refused(rows, words):
    with pytest.raises(InputError) as caught:
        Background(rows)
    assert words in str(caught.value)
