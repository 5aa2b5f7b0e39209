import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from r2et import Columns
from r2et.errors import CheckpointError, InputError
from r2et.tables import Encoding
from r2et.tables.declared import Category, Flag, Share
from r2et.tables.kinds import CategoryColumn, FlagColumn, NumberColumn, TwoValueColumn
from tests.estimator.frames import mixed


def encoded(frame: pd.DataFrame, **options) -> pd.DataFrame:
    encoding = Encoding.learn(frame, **options)
    return pd.DataFrame(encoding.encode(frame), columns=list(encoding.names))


def test_numbers_are_those_of_standard_scaler():
    frame = mixed()[0][["age", "pay"]]
    np.testing.assert_allclose(encoded(frame), StandardScaler().fit_transform(frame), rtol=1e-12)


def test_new_rows_are_scaled_by_the_rows_of_fit():
    frame = mixed()[0][["age", "pay"]]
    found = Encoding.learn(frame[:50]).encode(frame[50:])
    np.testing.assert_allclose(found, StandardScaler().fit(frame[:50]).transform(frame[50:]), rtol=1e-12)


def test_categories_are_those_of_one_hot_encoder():
    frame = mixed()[0][["job", "grade"]]
    expected = OneHotEncoder(sparse_output=False, drop="if_binary").fit(frame)
    np.testing.assert_array_equal(encoded(frame), expected.transform(frame))
    # a category that is declared and never occurs is no feature, as in scikit-learn; two are one feature
    assert list(encoded(frame)) == ["job: cook", "job: nurse", "job: pilot", "grade: b"]


def test_every_kind_of_column():
    kinds = [type(column) for column in Encoding.learn(mixed()[0]).columns]
    assert kinds == [NumberColumn, CategoryColumn, FlagColumn, TwoValueColumn, FlagColumn, NumberColumn]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3, 4], NumberColumn),
        ([0, 0, 0, 0], NumberColumn),
        ([0.0, 1.0, 1.0, 0.0], FlagColumn),
        ([0, 1, 2, 1], NumberColumn),
        (pd.array([1, 2, 3, 4], dtype="Int64"), NumberColumn),
        (pd.array([1, 0, 0, 1], dtype="Int8"), FlagColumn),
        (pd.array([True, False, True, True], dtype="boolean"), FlagColumn),
        (pd.Series([True, False, True, True], dtype=object), FlagColumn),
        (pd.Series([1, 2.5, 3, 4], dtype=object), NumberColumn),
        ([Decimal("1.5"), Decimal(2), Decimal(3), Decimal(4)], NumberColumn),
        (pd.Series(["1", "2", "3", "4"], dtype=object), CategoryColumn),
        (pd.Series(["a", "b", "a", "b"], dtype="string"), TwoValueColumn),
        (pd.Series([3, 1, 3, 1], dtype="category"), TwoValueColumn),
        (pd.Series([3, 1, 3, 2], dtype="category"), CategoryColumn),
        (pd.Series(["a", "a", "a", "a"], dtype="string"), CategoryColumn),
    ],
)
def test_kinds_by_type_and_content(values, kind):
    found = Encoding.learn(pd.DataFrame({"a": values, "b": [0.5, 1.5, 2.5, 9.0]}))
    assert type(found.columns[0]) is kind


def test_flags_stay_as_they_are():
    frame = mixed()[0]
    np.testing.assert_array_equal(encoded(frame)["smokes"], frame["smokes"].astype(float))
    np.testing.assert_array_equal(encoded(frame)["owns"], frame["owns"].astype(float))


def test_a_constant_column_is_zero_not_an_explosion():
    # the standard deviation of this one is a rounding error, not zero
    frame = pd.DataFrame({"a": [0.1] * 7, "b": range(7)})
    assert encoded(frame)["a"].abs().max() < 1e-9


def test_columns_of_numbers_can_be_categorical():
    frame = pd.DataFrame({"zip": [20, 10, 20, 30], "age": [1.0, 2.0, 3.0, 4.0]})
    found = encoded(frame, categorical=[0])
    assert list(found) == ["zip: 10", "zip: 20", "zip: 30", "age"]
    np.testing.assert_array_equal(
        found.iloc[:, :3], OneHotEncoder(sparse_output=False).fit_transform(frame[["zip"]])
    )
    # 20.0 is 20: a later frame may hold floats
    later = Encoding.learn(frame, [0]).encode(frame.astype(float))
    np.testing.assert_array_equal(later, found)


def test_a_new_category_is_all_zero_with_a_warning():
    frame = mixed()[0]
    encoding = Encoding.learn(frame)
    later = frame.head(4).copy()
    later.iloc[2, 1] = "chef"
    with pytest.warns(UserWarning, match=r"column 'job' .* 'chef' in row 'person 2'; 1 of 4 rows"):
        found = encoding.encode(later)
    group = [i for i, name in enumerate(encoding.names) if name.startswith("job")]
    assert found[:, group].sum(1).tolist() == [1, 1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoding.encode(frame)


def test_a_new_value_beside_two_is_neither_with_a_warning():
    frame = pd.DataFrame({"sex": ["f", "m", "m"], "age": [1.5, 2.0, 3.0]})
    encoding = Encoding.learn(frame)
    assert encoding.names == ("sex: m", "age")
    with pytest.warns(UserWarning, match=r"column 'sex' .* 'x' in row 1; 1 of 3 rows"):
        found = encoding.encode(frame.assign(sex=["f", "x", "m"]))
    assert found[:, 0].tolist() == [0, 0.5, 1]
    with pytest.raises(InputError, match="row 1 has no valid value of the flag 'sex'"):
        encoding.as_columns.check_rows(torch.from_numpy(found))


def test_domain():
    frame = mixed()[0]
    encoding = Encoding.learn(frame)
    domain, values = encoding.domain, encoding.encode(frame)
    assert domain.groups == ((1, 2, 3),)
    assert domain.frozen == (4, 5, 6)
    np.testing.assert_allclose(domain.lower, values.min(0))
    np.testing.assert_allclose(domain.upper, values.max(0))
    movable = domain.reach("domain", 8).movable
    assert [name for name, can in zip(encoding.names, movable, strict=True) if can] == ["age", "pay"]


def test_columns_have_their_features_and_the_frequencies_of_their_values():
    frame = mixed()[0]
    encoding = Encoding.learn(frame)
    columns = encoding.as_columns
    assert columns.names == tuple(frame.columns)
    assert columns.features == ((0,), (1, 2, 3), (4,), (5,), (6,), (7,))
    assert columns.kinds == ("number", "category", "flag", "flag", "flag", "number")
    columns.check_rows(torch.from_numpy(encoding.encode(frame)))
    counted = frame["job"].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose(columns.frequencies[1], counted)
    assert columns.frequencies[2] == pytest.approx((1 - frame["smokes"].mean(), frame["smokes"].mean()))
    assert columns.frequencies[3] == pytest.approx(tuple((frame["grade"] == value).mean() for value in ("a", "b")))
    learned = Columns.from_rows(torch.from_numpy(encoding.encode(frame)), encoding.domain, names=encoding.names)
    assert learned.features == columns.features
    for found, expected in zip(learned.frequencies, columns.frequencies, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_declared_columns_keep_a_feature_per_category_and_count_them_in_the_rows_of_fit():
    features = [
        Category("job", "job", {"c": "cook", "n": "nurse"}),
        Flag("smokes", "smokes", {"yes": 1, "no": 0}),
        Share("grey", "grey"),
    ]
    frame = pd.DataFrame({"job": ["cook", "cook"], "smokes": [1, 0], "grey": [0.5, 0.25]})
    encoding = Encoding.declared(features, frame)
    assert encoding.names == ("job: cook", "job: nurse", "smokes", "grey")
    assert encoding.as_columns.kinds == ("category", "flag", "number")
    assert encoding.as_columns.frequencies == ((1.0, 0.0), (0.5, 0.5), ())
    assert encoding.domain.frozen == (2,)


def test_description_goes_there_and_back():
    encoding = Encoding.learn(mixed()[0], categorical=[0])
    assert Encoding.from_description(encoding.describe()) == encoding


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"kind": "date", "name": "a"},
        {"kind": "number", "name": "a"},
        {"kind": "flag", "name": "a"},
        {"kind": "flag", "name": "a", "frequencies": [0.5, 0.6]},
        {"kind": "category", "name": "a", "values": ["x", "y", "z"], "frequencies": [0.5, 0.5]},
        {"kind": "category", "name": "a", "values": ["x", "x"], "frequencies": [0.5, 0.5]},
        {"kind": "two-values", "name": "a", "values": ["x"], "frequencies": [1.0]},
        3,
    ],
)
def test_what_describes_no_column(entry):
    with pytest.raises(CheckpointError, match="does not describe a column"):
        Encoding.from_description([entry])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([np.nan] * 3, "column 'bad' has no value in any of 3 rows: leave it out"),
        ([None] * 3, "column 'bad' has no value in any of 3 rows: leave it out"),
        (pd.to_datetime([None] * 3), "column 'bad' has no value in any of 3 rows: leave it out"),
        ([1.0, np.inf, 3.0], "column 'bad' has infinite values, first inf in row 'y'"),
        (
            pd.to_timedelta([1, 2, 3], unit="D"),
            r"column 'bad' holds timedelta64 values such as Timedelta\('1 days",
        ),
        ([1j, 2j, 3j], "column 'bad' holds complex values such as"),
        (["a", 1, "b"], "column 'bad' mixes text and numbers .'a' in row 'x' and 1 in row 'y'"),
        ([{"a": 1}, 1, 2], r"column 'bad' holds \{'a': 1\} in row 'x'"),
        (np.array([10**400, 1, 2], dtype=object), "column 'bad' cannot be read as numbers"),
        ([1e308, -1e308, 1e308], "column 'bad' has values as large as 1e\\+308"),
    ],
)
def test_values_that_cannot_be_used(values, message):
    frame = pd.DataFrame({"good": [1, 2, 3], "bad": values}, index=["x", "y", "z"])
    frame["bad"] = pd.Series(values, index=frame.index)
    with pytest.raises(InputError, match=message):
        Encoding.learn(frame)


def test_numbers_written_as_text_are_numbers():
    frame = mixed()[0]
    encoding = Encoding.learn(frame)
    later = frame.assign(age=frame["age"].astype(str), owns=frame["owns"].astype(str))
    np.testing.assert_array_equal(encoding.encode(later), encoding.encode(frame))


def test_text_in_a_column_that_was_numeric():
    frame = mixed()[0]
    later = frame.assign(age=["41 years", *frame["age"][1:].astype(str)])
    with pytest.raises(
        InputError,
        match=r"column 'age' held numbers in fit and holds '41 years' in row 'person 0' now.*1 such row",
    ):
        Encoding.learn(frame).encode(later)
