"""--explainer contributions: with the background of an estimator that has one, else a sentence."""

import dataclasses

import pytest
import torch

from r2et.auditing import Subject
from r2et.cli.subject import _of_columns
from r2et.errors import InputError
from r2et.explainers import Background, ColumnEffects, Contributions
from tests.tables_with_traps import COLUMNS, network, table

SUBJECT = Subject(
    name="net",
    data="people.csv",
    rows="4 rows",
    model=network(),
    x=table(4),
    y=torch.zeros(4, dtype=torch.int64),
    k=3,
    explainer=ColumnEffects(columns=COLUMNS),
    columns=COLUMNS,
)


def test_contributions_take_the_background_of_the_estimator():
    background = Background(table(3))
    chosen = _of_columns(dataclasses.replace(SUBJECT, background=background), Contributions)
    assert chosen == Contributions(columns=COLUMNS, background=background)
    assert _of_columns(SUBJECT, ColumnEffects) == ColumnEffects(columns=COLUMNS)


def test_without_a_background_or_columns_there_is_a_sentence():
    with pytest.raises(InputError, match="'net' has none: a StableClassifier"):
        _of_columns(SUBJECT, Contributions)
    with pytest.raises(InputError, match="contributions explains built-in"):
        _of_columns(dataclasses.replace(SUBJECT, columns=None), Contributions)
