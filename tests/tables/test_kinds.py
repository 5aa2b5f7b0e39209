"""Tables as people have them: values that are missing, rare or new, dates, other types than in fit."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from r2et import StableClassifier
from r2et.errors import InputError
from r2et.estimator.lists import own_values
from r2et.tables import Encoding, Pooling
from r2et.tables.kinds import CategoryColumn, DateColumn, FlagColumn, NumberColumn, TwoValueColumn

QUICK = {"k": 2, "method": "vanilla", "epochs": 3, "hidden": (8,), "random_state": 0}


def people(rows: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Every kind of column, each with a hole in every seventh row or so."""
    drawn = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": drawn.integers(20, 70, rows).astype(float),
            "job": drawn.choice(["cook", "nurse", "pilot"], rows).astype(object),
            "smokes": pd.array(drawn.random(rows) < 0.4, dtype="boolean"),
            "sex": drawn.choice(["f", "m"], rows).astype(object),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(drawn.integers(0, 900, rows), unit="D"),
            "pay": drawn.lognormal(3.0, 1.0, rows),
        }
    )
    labels = np.where(frame["age"] + 10 * drawn.normal(size=rows) > 45, "yes", "no")
    for number, name in enumerate(["age", "job", "smokes", "sex", "since"]):
        frame.loc[number::7, name] = None
    return frame, labels


def test_missing_values_have_a_feature_or_a_category():
    frame, _ = people()
    encoding = Encoding.learn(frame)
    kinds = [type(column) for column in encoding.columns]
    assert kinds == [NumberColumn, CategoryColumn, CategoryColumn, CategoryColumn, DateColumn, NumberColumn]
    assert encoding.names == (
        "age",
        "age: missing",
        *("job: cook", "job: nurse", "job: pilot", "job: missing"),
        *("smokes: False", "smokes: True", "smokes: missing"),
        *("sex: f", "sex: m", "sex: missing"),
        *("since", "since: missing", "pay"),
    )
    x = encoding.encode(frame)
    gone = frame["age"].isna().to_numpy()
    np.testing.assert_array_equal(x[:, 1], gone)
    there = (frame["age"] - frame["age"].mean()) / frame["age"].std(ddof=0)
    np.testing.assert_allclose(x[~gone, 0], there[~gone], rtol=1e-12)
    np.testing.assert_allclose(x[gone, 0], np.median(there[~gone]), rtol=1e-12)
    columns, domain = encoding.as_columns, encoding.domain
    columns.check_rows(torch.from_numpy(x))
    assert columns.missing == (1, -1, -1, -1, 13, -1)
    assert domain.absent == ((0, 1), (12, 13))
    assert domain.frozen == (1, 13)
    assert columns.domain().absent == domain.absent
    assert columns.typical.tolist()[1] == 0


def test_two_values_and_a_hole_are_three_categories_and_one_value_and_a_hole_are_two():
    frame = pd.DataFrame({"a": [0, 1, None, 1], "b": ["x", None, "x", "x"], "c": [0, 1, 1, 0]})
    encoding = Encoding.learn(frame)
    assert [type(column) for column in encoding.columns] == [CategoryColumn, TwoValueColumn, FlagColumn]
    assert encoding.names == ("a: 0", "a: 1", "a: missing", "b: missing", "c")
    assert encoding.encode(frame)[:, 3].tolist() == [0, 1, 0, 0]


def test_every_column_that_misses_what_it_had_in_fit_is_named():
    frame, _ = people()
    full = frame.dropna().reset_index(drop=True)
    encoding = Encoding.learn(full)
    with pytest.raises(InputError) as caught:
        encoding.encode(frame)
    text = str(caught.value)
    for name in ("age", "smokes", "since"):
        count, first = int(frame[name].isna().sum()), int(np.flatnonzero(frame[name].isna())[0])
        assert f"{name!r} ({count} of 60, first in row {first})" in text
    assert "'pay'" not in text
    assert encoding.new_gaps(frame).columns.tolist() == full.columns.tolist()
    assert encoding.new_gaps(frame).equals(frame.isna())


def test_a_category_that_is_missing_for_the_first_time_is_a_new_one():
    full = pd.DataFrame({"job": ["cook", "nurse", "pilot"] * 50, "age": range(150)})
    encoding = Encoding.learn(full)
    new = pd.DataFrame({"job": ["cook", None, np.nan], "age": [1, 2, 3]})
    with pytest.warns(UserWarning, match="such as a missing one in row 1; 2 of 3 rows"):
        x = encoding.encode(new)
    assert x[:, :3].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_a_category_that_is_missing_for_the_first_time_joins_the_rare_ones():
    jobs = ["cook"] * 500 + ["nurse"] * 480 + ["pilot"] * 15 + ["judge"] * 5
    encoding = Encoding.learn(pd.DataFrame({"job": jobs}))
    with pytest.warns(UserWarning, match="a missing one in row 0; 1 of 2 rows .* count as 'other values'"):
        x = encoding.encode(pd.DataFrame({"job": [None, "judge"]}))
    assert x.tolist() == [[0, 0, 1], [0, 0, 1]]


def test_lists_name_what_is_missing():
    frame, _ = people()
    row = np.zeros(5, dtype=np.int64)
    frame.iloc[0, :5] = None
    assert own_values(frame, row, np.arange(5)) == ["missing"] * 5
    assert own_values(frame, np.array([1]), np.array([4])) == [f"{frame['since'][1].date()}"]


# --- rare values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "pooled"),
    [
        ([500, 400, 60, 19, 21], []),  # a single one stays
        ([500, 400, 60, 19, 18, 3], ["d", "e", "f"]),
        ([9, 8, 2, 1], []),
        ([60, 36, 1, 1, 2], ["c", "d"]),  # below 2 % of 100 rows
        ([1] * 30, []),
        ([1] * 300, []),  # nothing would be left
        ([9_900, 49, 51], []),
        ([9_900, 49, 48, 51], ["b", "c"]),  # below .5 % of 10,048 rows
    ],
)
def test_what_is_pooled(counts, pooled):
    letters = [chr(97 + i) if i < 26 else f"v{i}" for i in range(len(counts))]
    frame = pd.DataFrame({"c": np.repeat(letters, counts)})
    (column,) = Encoding.learn(frame).columns
    assert list(column.rare) == pooled
    assert ("other values" in column.values) == bool(pooled)
    assert (Encoding.learn(frame, pool=Pooling(0, 0)).columns[0].rare) == ()
    if pooled:
        share = sum(count for letter, count in zip(letters, counts, strict=True) if letter in pooled) / sum(counts)
        assert column.frequencies[column.values.index("other values")] == pytest.approx(share)


def test_rare_and_new_values_are_others():
    frame = pd.DataFrame({"c": ["a"] * 60 + ["b"] * 60 + ["x", "y", None]})
    encoding = Encoding.learn(frame)
    assert encoding.names == ("c: a", "c: b", "c: other values", "c: missing")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoding.encode(frame)[-3:].tolist() == [[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    with pytest.warns(
        UserWarning, match=r"'c' has values .* 'new' in row 0; 1 of 1 rows .* count as 'other values'"
    ):
        assert encoding.encode(pd.DataFrame({"c": ["new"]})).tolist() == [[0, 0, 1, 0]]


def test_a_value_that_is_called_as_the_pool_is_in_it():
    frame = pd.DataFrame({"c": ["a"] * 60 + ["other values"] * 60 + ["x"]})
    encoding = Encoding.learn(frame)
    assert encoding.names == ("c: other values",)
    assert encoding.encode(frame)[:, 0].tolist() == [0.0] * 60 + [1.0] * 61
    assert Encoding.from_description(json.loads(json.dumps(encoding.describe()))) == encoding


@pytest.mark.parametrize("settings", [(-0.1, 20), (1.0, 20), ("a", 20), (0.1, -1), (0.1, 2.5), (np.nan, 1)])
def test_a_pooling_that_is_none(settings):
    with pytest.raises(InputError, match=r"rare|share"):
        Pooling(*settings)


# --- dates, and types at prediction -------------------------------------------------------------------------


def test_dates_are_days():
    dates = pd.to_datetime(["1970-01-02", "2024-02-29 12:00", None, "1969-12-31"], format="ISO8601")
    frame = pd.DataFrame({"since": dates, "n": range(4)})
    column = Encoding.learn(frame).columns[0]
    assert type(column) is DateColumn
    expected = np.array([1.0, 19782.5, np.nan, -1.0])
    np.testing.assert_allclose(column.read(frame["since"], "since"), expected)
    assert not column.whole
    for later in (
        frame["since"].dt.tz_localize("UTC"),
        frame["since"].astype(object),
        pd.Series(["1970-01-02", "2024-02-29T12:00:00", None, "1969-12-31"]),
        frame["since"].astype("datetime64[s]"),
    ):
        np.testing.assert_allclose(column.read(later, "since"), expected)
    whole = Encoding.learn(pd.DataFrame({"d": [pd.Timestamp("2020-05-01").date(), None], "n": [1, 2]}))
    assert whole.columns[0].whole


def test_what_is_no_date():
    frame = pd.DataFrame({"since": pd.to_datetime(["1970-01-02", "2024-02-29"]), "n": [1, 2]})
    encoding = Encoding.learn(frame)
    with pytest.raises(InputError, match=r"'since' holds 'soon' in row 1, which is no date"):
        encoding.encode(frame.assign(since=["1970-01-02", "soon"]))
    with pytest.raises(
        InputError, match=r"'since' held dates in fit and holds 3\.? now|held dates in fit and holds"
    ):
        encoding.encode(frame.assign(since=[3, 4]))


def test_dates_can_be_categories():
    frame = pd.DataFrame({"d": pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01"]), "n": [1, 2, 4]})
    assert Encoding.learn(frame, [0]).names == ("d: 2020-01-02", "n")


@pytest.mark.parametrize(
    ("fit", "later"),
    [
        (["1", "2", "3"], [1, 2, 3]),
        ([1, 2, 3], ["1", "2", "3"]),
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        (["True", "False", "True"], [True, False, True]),
    ],
)
def test_categories_are_recognised_as_numbers_and_as_text(fit, later):
    frame = pd.DataFrame({"c": fit, "n": [1.5, 2.5, 9.0]})
    encoding = Encoding.learn(frame, categorical=[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(encoding.encode(frame.assign(c=later)), encoding.encode(frame))


def test_text_with_a_zero_in_front_is_another_category():
    encoding = Encoding.learn(pd.DataFrame({"zip": ["01", "02", "03"], "n": [1, 2, 5]}))
    with pytest.warns(UserWarning, match="'zip' has values that were not there"):
        encoding.encode(pd.DataFrame({"zip": [1], "n": [1]}))


def test_flags_in_words_are_flags_and_other_numbers_are_said():
    encoding = Encoding.learn(pd.DataFrame({"f": [True, False, True], "n": [1, 2, 5]}))
    assert encoding.encode(pd.DataFrame({"f": ["True", "false"], "n": [1, 2]}))[:, 0].tolist() == [1, 0]
    with pytest.warns(UserWarning, match="'f' has values that were not there in fit, such as 2"):
        encoding.encode(pd.DataFrame({"f": [2], "n": [1]}))


def test_all_columns_that_are_not_there_are_named():
    frame, y = people()
    model = StableClassifier(**QUICK).fit(frame, y)
    with pytest.raises(InputError, match="X has no column 'age', 'job', 'smokes', 'sex', 'since', 'pay'"):
        model.predict(frame.rename(columns=str.upper))


# --- the whole way ------------------------------------------------------------------------------------------


def test_a_classifier_of_a_table_with_holes(tmp_path):
    frame, y = people(80)
    model = StableClassifier(**QUICK).fit(frame, y)
    lists = model.explain(frame)
    for _, entry in lists.iterrows():
        own = own_values(frame, np.array([entry["row"]]), np.array([frame.columns.get_loc(entry["column"])]))
        assert entry["value"] == own[0]
    assert (lists["value"] == "missing").any()
    model.save(tmp_path / "model")
    again = StableClassifier.load(tmp_path / "model")
    assert again.encoding_ == model.encoding_
    assert again.domain_ == model.domain_
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    assert (again.rare_share, again.rare_rows) == (0.005, 20)


def kinds_of_column():
    words = st.sampled_from(["a", "b", "missing", "other values", "1", "ü"])
    numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
    return st.sampled_from(
        [
            numbers,
            st.integers(-50, 50).map(float),
            st.sampled_from([0.0, 1.0]),
            st.booleans(),
            words,
            st.datetimes(pd.Timestamp("1900-01-01"), pd.Timestamp("2100-01-01")).map(pd.Timestamp),
        ]
    )


@st.composite
def frames(draw):
    rows = draw(st.integers(1, 40))
    columns = {}
    for number in range(draw(st.integers(1, 4))):
        values = draw(kinds_of_column().flatmap(lambda kind: st.lists(kind, min_size=rows, max_size=rows)))
        gone = (
            draw(st.lists(st.booleans(), min_size=rows, max_size=rows)) if draw(st.booleans()) else [False] * rows
        )
        gone[0] = False
        typed = pd.Series(values).astype(object)
        typed[gone] = None
        columns[f"c{number}"] = typed.infer_objects() if draw(st.booleans()) else typed
    categorical = draw(st.lists(st.integers(0, len(columns) - 1), unique=True))
    return (
        pd.DataFrame(columns),
        categorical,
        Pooling(draw(st.sampled_from([0.0, 0.1, 0.5])), draw(st.integers(0, 5))),
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frames())
def test_any_table_is_encoded_as_rows_that_exist_and_goes_to_a_file_and_back(case):
    frame, categorical, pool = case
    encoding = Encoding.learn(frame, categorical, pool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.from_numpy(encoding.encode(frame))
    columns, domain = encoding.as_columns, encoding.domain
    columns.check_rows(x)
    domain.check_rows(x)
    domain.check(x.shape[1])
    assert (x >= domain.lower - 1e-9).all()
    assert (x <= domain.upper + 1e-9).all()
    described = json.loads(json.dumps(encoding.describe()))
    again = Encoding.from_description(described)
    assert again == encoding
    assert torch.equal(torch.from_numpy(again.encode(frame)), x)
    assert (again.domain, again.as_columns) == (domain, columns)
    # no row has a category that is not its own, and every missing value is known as missing
    for number, column in enumerate(encoding.columns):
        part = x[:, list(columns.features[number])]
        if isinstance(column, NumberColumn):
            if columns.missing[number] >= 0:
                assert part[:, 1].bool().tolist() == frame.iloc[:, number].isna().tolist()
            continue
        own = own_values(frame, np.arange(len(frame)), np.full(len(frame), number))
        if isinstance(column, FlagColumn):
            assert [
                str(bool(v)) if value in ("True", "False") else str(int(v))
                for v, value in zip(part, own, strict=True)
            ] == own
            continue
        held = part[:, 0].long() if isinstance(column, TwoValueColumn) else part.argmax(1)
        rare = {str(value) for value in column.rare}
        for place, value in zip(held.tolist(), own, strict=True):
            told = str(column.values[place])
            assert told == value or (told == "other values" and value in rare)
