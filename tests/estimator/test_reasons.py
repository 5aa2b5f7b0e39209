"""Reasons are true of the person, add up, and speak for the class they are said to speak for."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import r2et
from r2et import StableClassifier
from r2et.errors import InputError
from r2et.explainers import Background, Contributions

from .frames import mixed

COLUMNS = [
    "row",
    "rank",
    "column",
    "value",
    "contribution",
    "direction",
    "holds_within",
    "holds_within_units",
    "text",
]
BRIEF = {"k": 2, "settings": {}, "epochs": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted() -> StableClassifier:
    return StableClassifier(**{**BRIEF, "epochs": 15}, network="additive").fit(*mixed())


@pytest.fixture(scope="module")
def linear() -> StableClassifier:
    return StableClassifier(**{**BRIEF, "epochs": 15}, method="linear").fit(*mixed())


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return mixed()[0]


def random_table(drawn: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Two to six columns of any kind and two to seven classes."""
    rows, classes = int(drawn.integers(40, 90)), int(drawn.integers(2, 8))
    kinds = {
        "number": lambda: drawn.normal(size=rows) * 10.0 ** drawn.integers(-3, 5),
        "whole": lambda: drawn.poisson(3, rows),
        "flag": lambda: drawn.random(rows) < 0.4,
        "text": lambda: drawn.choice([f"value {i}" for i in range(drawn.integers(2, 6))], rows),
        "code": lambda: pd.Categorical(drawn.choice([7, 8, 9], rows)),
    }
    chosen = drawn.choice(list(kinds), size=drawn.integers(2, 7))
    frame = pd.DataFrame({f"{kind} {i}": kinds[kind]() for i, kind in enumerate(chosen)})
    labels = np.concatenate([np.arange(classes).repeat(4), drawn.integers(0, classes, rows - 4 * classes)])
    frame.index = [f"person {i}" for i in range(rows)]
    return frame, np.array([f"class {i}" for i in labels])


@given(seed=st.integers(0, 2**32 - 1), network=st.sampled_from(["additive", "mlp"]), n=st.integers(1, 8))
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_reason_is_a_value_that_the_row_has(seed, network, n):
    drawn = np.random.default_rng(seed)
    table, y = random_table(drawn)
    model = StableClassifier(**{**BRIEF, "k": 1}, network=network, method="vanilla").fit(table, y)
    some = table.iloc[drawn.permutation(len(table))[:12]]
    toward = drawn.choice([None, *model.classes_])
    told = model.reasons(some, n, toward=toward, proven=False)
    assert told.columns.tolist() == COLUMNS
    assert (told["contribution"] > 0).all()
    for label, reasons in told.groupby("row"):
        assert reasons["rank"].tolist() == list(range(1, len(reasons) + 1))
        assert len(reasons) <= n
        assert reasons["column"].is_unique
        assert reasons["contribution"].is_monotonic_decreasing
        for column, value, text in zip(reasons["column"], reasons["value"], reasons["text"], strict=True):
            own = some.loc[label, column]
            assert value == str(int(own) if isinstance(own, float) and own.is_integer() else own)
            assert text.startswith(f"{column} is {value}, ")
    predicted = dict(zip(some.index, model.predict(some), strict=True))
    for label, direction in zip(told["row"], told["direction"], strict=True):
        assert direction == f"speaks for {predicted[label] if toward is None else toward}"
    listed = set(told["row"]) | set(told.attrs["rows_without_reasons"])
    assert listed == set(some.index)
    assert set(told["row"]) & set(told.attrs["rows_without_reasons"]) == set()


def test_contributions_of_all_columns_add_up_to_the_score_difference(fitted, linear, frame):
    """Toward either class the reasons are what speaks for it, so together they are all columns."""
    for model in (fitted, linear):
        sums = [
            model.reasons(frame, 99, toward=label, proven=False).groupby("row")["contribution"].sum()
            for label in ("refuse", "accept")
        ]
        told = sums[0].reindex(frame.index, fill_value=0.0) - sums[1].reindex(frame.index, fill_value=0.0)
        logits = model.model_(model.background_.tensor)
        at_background = float((logits[:, 1] - logits[:, 0]).mean())
        np.testing.assert_allclose(told, model.decision_function(frame) - at_background, rtol=0, atol=1e-9)


def test_a_reason_of_a_linear_model_is_what_its_column_adds(linear, frame):
    """The score falls by the contribution when the column takes the background's values instead."""
    columns, background = linear.encoding_.as_columns, linear.background_.tensor
    x = linear.encode(frame)
    for toward, sign in (("refuse", 1), ("accept", -1)):
        told = linear.reasons(frame, 3, toward=toward, proven=False)
        assert len(told)
        for label, column, contribution in zip(told["row"], told["column"], told["contribution"], strict=True):
            features = list(columns.features[columns.names.index(column)])
            own = x[frame.index.get_loc(label)].repeat(len(background), 1)
            replaced = own.clone()
            replaced[:, features] = background[:, features]
            logits = linear.model_(own) - linear.model_(replaced)
            fall = sign * (logits[:, 1] - logits[:, 0]).mean()
            assert contribution == pytest.approx(float(fall), abs=1e-9)


def test_the_list_is_the_largest_positive_contributions(fitted, frame):
    values = fitted.contributions_(fitted.model_, fitted.encode(frame), torch.ones(len(frame), dtype=torch.int64))
    names = fitted.encoding_.column_names
    told = fitted.reasons(frame, 2, toward="refuse", proven=False)
    for label, own in zip(frame.index, values.tolist(), strict=True):
        best = sorted((value, name) for value, name in zip(own, names, strict=True) if value > 0)[::-1][:2]
        assert told[told["row"] == label]["column"].tolist() == [name for _, name in best]


def test_toward_is_the_predicted_class_by_default(fitted, frame):
    own = fitted.reasons(frame, proven=False)
    for label in fitted.classes_:
        rows = frame[fitted.predict(frame) == label]
        expected = fitted.reasons(rows, toward=label, proven=False)
        told = own[own["row"].isin(rows.index)].reset_index(drop=True)
        pd.testing.assert_frame_equal(told, expected)


def test_seven_classes_toward_any_of_them():
    drawn = np.random.default_rng(3)
    x = pd.DataFrame(drawn.normal(size=(210, 3)), columns=list("abc"))
    y = pd.qcut(x["a"], 7, labels=False).to_numpy()
    model = StableClassifier(k=2, network="additive", epochs=30, random_state=0).fit(x, y)
    extreme = x.iloc[[int(x["a"].argmax()), int(x["a"].argmin())]]
    assert model.reasons(extreme, 1, toward=6, proven=False)["column"].tolist()[0] == "a"
    assert model.reasons(extreme, 1, toward=0, proven=False).groupby("row").first()["column"].tolist().count("a")
    with pytest.raises(InputError, match="toward=7 is none of the classes"):
        model.reasons(extreme, toward=7)


def test_nothing_speaks_for_the_class():
    """A row whose only other column says nothing: the list is empty, and the row is not lost."""
    drawn = np.random.default_rng(0)
    x = pd.DataFrame({"a": drawn.normal(size=120), "b": np.repeat(["only"], 120)})
    y = (x["a"] > 0).astype(int).to_numpy()
    model = StableClassifier(k=1, method="linear", epochs=30, random_state=0).fit(x, y)
    ends = x.iloc[[int(x["a"].argmax()), int(x["a"].argmin())]]
    told = model.reasons(ends, toward=0, proven=False)
    assert told["row"].tolist() == [ends.index[1]]
    assert told.attrs["rows_without_reasons"] == [ends.index[0]]
    alone = model.reasons(ends.head(1), toward=0)
    assert alone.columns.tolist() == COLUMNS
    assert alone.empty
    assert alone.attrs["rows_without_reasons"] == [ends.index[0]]


def test_what_is_excluded_is_not_named_and_counted(fitted, frame):
    free = fitted.reasons(frame, 2, toward="refuse", proven=False)
    told = fitted.reasons(frame, 2, toward="refuse", exclude=["age", "pay"], proven=False)
    assert not told["column"].isin(["age", "pay"]).any()
    counts = free["column"].value_counts()
    assert told.attrs["excluded"] == {name: int(counts.get(name, 0)) for name in ("age", "pay")}
    assert sum(told.attrs["excluded"].values()) > 0
    everything = fitted.reasons(frame, 99, toward="refuse", proven=False)
    for label, reasons in told.groupby("row"):
        own = everything[(everything["row"] == label) & ~everything["column"].isin(["age", "pay"])]
        assert reasons["column"].tolist() == own["column"].tolist()[:2]
        assert reasons["rank"].tolist() == [1, 2][: len(reasons)]


def test_phrases(fitted, frame):
    phrases = {"age": "You are {value} years old ({column}; {toward}).", "job": "No place at all."}
    told = fitted.reasons(frame, 99, toward="refuse", phrases=phrases, proven=False)
    for column, value, text in zip(told["column"], told["value"], told["text"], strict=True):
        expected = {
            "age": f"You are {value} years old (age; refuse).",
            "job": "No place at all.",
        }.get(column, f"{column} is {value}, which speaks for refuse")
        assert text == expected
    assert set(told["column"]) >= {"age", "job", "smokes"}


def test_a_value_in_braces_is_no_place(fitted, frame):
    """What is put in is not looked at again."""
    odd = mixed()
    odd[0]["job"] = odd[0]["job"].replace("cook", "{column}")
    model = StableClassifier(**BRIEF, network="additive").fit(*odd)
    told = model.reasons(odd[0], 99, toward="refuse", phrases={"job": "A {value}"}, proven=False)
    shown = told[(told["column"] == "job") & (told["value"] == "{column}")]["text"]
    assert set(shown) <= {"A {column}"}


def test_a_row_with_an_unknown_value_is_told_apart(fitted, frame):
    few = frame.head(5).copy()
    few.iloc[1, 1] = "chef"
    with pytest.warns(UserWarning, match="'chef'"):
        told = fitted.reasons(few, proven=False)
    assert told.attrs["rows_not_explained"] == ["person 1"]
    others = fitted.reasons(few.drop(index="person 1"), proven=False)
    pd.testing.assert_frame_equal(told, others)
    with pytest.warns(UserWarning, match="'chef'"):
        nobody = fitted.reasons(few.iloc[[1]])
    assert nobody.columns.tolist() == COLUMNS
    assert nobody.empty
    assert nobody.attrs["rows_not_explained"] == ["person 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be a whole number of at least 1, got n=0"),
        ({"n": 2.5}, "n=2.5"),
        ({"toward": "refuze"}, "toward='refuze' is none of the classes: did you mean 'refuse'"),
        ({"toward": ["refuse"]}, r"toward=\['refuse'\] is none of the classes"),
        ({"exclude": ["agee"]}, "exclude has no column 'agee' to leave out: did you mean 'age'"),
        ({"exclude": "age"}, "exclude must be a list of names"),
        ({"exclude": ["age", "age"]}, "'age' twice"),
        ({"exclude": ["age", "job", "smokes", "grade", "owns", "pay"]}, "there is nothing left to name"),
        ({"phrases": {"agee": "a"}}, "the column 'agee', which the model has not: did you mean 'age'"),
        ({"phrases": {"age": "{years}"}}, r"phrases\['age'\] has \{years\}: known are"),
        ({"phrases": {"age": "{value.__class__}"}}, r"\{value.__class__\}"),
        ({"phrases": {"age": "{value"}}, "a brace of its own"),
        ({"phrases": {"age": 3}}, "must be text"),
        ({"phrases": ["age"]}, "phrases must be such as"),
        ({"proven": "no"}, "proven must be True or False"),
    ],
)
def test_what_cannot_be_asked_for(fitted, frame, options, message):
    with pytest.raises(InputError, match=message):
        fitted.reasons(frame.head(2), **options)


# --- how far it holds -----------------------------------------------------------------------------------------


def names_of(told: pd.DataFrame, rows: pd.Index) -> list[frozenset[str]]:
    named = told.groupby("row")["column"].agg(frozenset)
    return [named.get(label, frozenset()) for label in rows]


def radii_of(told: pd.DataFrame, rows: pd.Index) -> torch.Tensor:
    return torch.tensor(told.groupby("row")["holds_within"].first().reindex(rows, fill_value=0.0).to_numpy())


def moved_by(model: StableClassifier, x: torch.Tensor, radii: torch.Tensor, seed: int) -> torch.Tensor:
    """Rows whose numbers together are moved by these radii, half of them along one number alone."""
    drawn = torch.Generator().manual_seed(seed)
    numbers = model.encoding_.as_columns.continuous
    steps = torch.randn(x.shape, generator=drawn, dtype=x.dtype) * numbers
    if seed % 2:
        steps = steps * torch.nn.functional.one_hot(steps.abs().argmax(1), x.shape[1])
    return x + steps / steps.norm(dim=1, keepdim=True) * radii[:, None]


def names_at(model: StableClassifier, x: torch.Tensor, n: int, exclude: tuple[str, ...]) -> list[frozenset[str]]:
    """What is named of encoded rows toward "refuse", by hand."""
    values = model.contributions_(model.model_, x, torch.ones(len(x), dtype=torch.int64)).tolist()
    names = model.encoding_.column_names
    kept = [[(v, c) for v, c in zip(own, names, strict=True) if v > 0 and c not in exclude] for own in values]
    return [frozenset(c for _, c in sorted(own, reverse=True)[:n]) for own in kept]


@pytest.mark.parametrize(("n", "exclude"), [(1, ()), (3, ()), (2, ("age",)), (2, ("smokes", "job")), (99, ())])
def test_no_move_inside_the_radius_changes_a_list(fitted, frame, n, exclude):
    told = fitted.reasons(frame, n, toward="refuse", exclude=exclude)
    assert told.attrs["proof"] == {"method": "additive", "why_not": None}
    x, before, radii = (
        fitted.encode(frame),
        names_of(told, frame.index),
        radii_of(told, frame.index).nan_to_num(0.0),
    )
    assert names_at(fitted, x, n, exclude) == before
    assert (radii > 0).float().mean() > 0.4
    near = [names_at(fitted, moved_by(fitted, x, 0.999 * radii, seed), n, exclude) for seed in range(40)]
    assert all(after == before for after in near)
    # and a little further they do change: the certificate of an additive model is exact
    far = [names_at(fitted, moved_by(fitted, x, 1.3 * radii, seed), n, exclude) for seed in range(40)]
    changed = [any(after[i] != before[i] for after in far) for i in range(len(x)) if 0 < radii[i] < 3]
    assert np.mean(changed) > 0.5


@pytest.mark.parametrize("exclude", [(), ("smokes",)])
def test_a_value_may_move_as_far_as_the_words_say(fitted, frame, exclude):
    """Both ends, in a frame as a person has it: the same columns are named."""
    told = fitted.reasons(frame, 3, toward="refuse", exclude=exclude)
    before = dict(zip(frame.index, names_of(told, frame.index), strict=True))
    words = re.compile(r"^(\S+) between (\S+) and (\S+), if nothing else changes$")
    tried = 0
    for end in (2, 3):
        other, rows = frame.astype({"age": float}), []
        for label, said in zip(told["row"], told["holds_within_units"], strict=True):
            match = words.match(said)
            if match and label not in rows:
                other.loc[label, match[1]] = float(match[end])
                rows.append(label)
        again = fitted.reasons(other.loc[rows], 3, toward="refuse", exclude=exclude, proven=False)
        assert names_of(again, rows) == [before[label] for label in rows]
        tried += len(rows)
    assert tried > 30


def test_discrete_columns_stay_in_words(fitted, frame):
    told = fitted.reasons(frame, 3, toward="refuse")
    for column, value, said in zip(told["column"], told["value"], told["holds_within_units"], strict=True):
        if column in ("job", "smokes", "grade", "owns"):
            assert said == f"{column} stays {value}"


def test_whether_the_last_column_joins_a_list_of_all_is_not_proven(fitted, frame):
    told = fitted.reasons(frame, 6, toward="refuse")
    count = told.groupby("row")["column"].transform("size")
    assert told["holds_within"].isna().tolist() == (count >= 5).tolist()
    assert (count < 5).any()


def test_the_certificate_is_about_the_class_that_is_asked_for(fitted, frame):
    other = np.where(fitted.predict(frame) == "refuse", "accept", "refuse")
    for label in fitted.classes_:
        rows = frame[other == label]
        target = torch.full((len(rows),), fitted.classes_.tolist().index(label))
        certificate = r2et.certify(
            fitted.model_,
            fitted.encode(rows),
            2,
            explainer=fitted.contributions_,
            domain=fitted.domain_,
            target=target,
        )
        told = fitted.reasons(rows, 2, toward=label)
        expected = pd.Series(certificate.radius.numpy(), index=rows.index)[told["row"]].to_numpy()
        np.testing.assert_allclose(told["holds_within"], expected, rtol=1e-9)


def test_where_nothing_can_be_proven_it_says_why(frame):
    model = StableClassifier(**BRIEF, method="vanilla").fit(*mixed())
    told = model.reasons(frame.head(4), 2)
    assert told["holds_within"].isna().all()
    assert (told["holds_within_units"] == "").all()
    assert told.attrs["proof"]["method"] is None
    assert "hinges" in told.attrs["proof"]["why_not"]
    asked = model.reasons(frame.head(4), 2, proven=False)
    assert asked.attrs["proof"]["why_not"] == "not asked for (proven=False)"
    pd.testing.assert_frame_equal(asked, told)


# --- the background -------------------------------------------------------------------------------------------


def test_no_row_of_the_training_data_is_stored(fitted, frame):
    x, background = fitted.encode(frame), fitted.background_.tensor
    assert isinstance(fitted.background_, Background)
    assert 1 <= len(background) <= 64
    fitted.encoding_.as_columns.check_rows(background)
    assert not (x[:, None] == background).all(2).any()


def test_the_background_is_saved_and_what_is_told_stays_the_same(fitted, frame, tmp_path):
    fitted.save(tmp_path / "model")
    again = StableClassifier.load(tmp_path / "model")
    assert again.background_.sha256 == fitted.background_.sha256
    assert again.network == "additive"
    expected, told = fitted.reasons(frame), again.reasons(frame)
    pd.testing.assert_frame_equal(told, expected)
    assert told.attrs == expected.attrs
    assert told.attrs["background"] == fitted.background_.sha256


def test_the_explainer_is_that_of_the_columns(fitted):
    assert fitted.contributions_ == Contributions(
        columns=fitted.encoding_.as_columns, background=fitted.background_, reduce="signed"
    )
