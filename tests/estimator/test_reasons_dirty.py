"""Reasons from a table with holes, dates, rare values and codes: true of the person, complete, proven."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from r2et import StableClassifier, StableRegressor
from r2et.errors import InputError

from .dirty import VILLAGES, dirty, own_text

BRIEF = {"k": 2, "settings": {}, "hidden": (6,), "random_state": 0}
NETWORKS = {
    "additive": {"network": "additive", "epochs": 12},
    "linear": {"method": "linear", "epochs": 12},
    "mlp": {"epochs": 6},
}


def price(rows: int = 300) -> tuple[pd.DataFrame, pd.Series]:
    """The same table with a number to predict."""
    frame = dirty(rows)[0]
    income = frame["income"].fillna(1000.0)
    noise = np.random.default_rng(5).normal(size=rows)
    return frame, (income * 100 + 800 * frame["age"] + 9000 * (frame["code"] == "01069") + 1e4 * noise).rename(
        "price"
    )


@pytest.fixture(scope="module", params=NETWORKS)
def fitted(request) -> StableClassifier:
    return StableClassifier(**BRIEF, **NETWORKS[request.param]).fit(*dirty())


@pytest.fixture(scope="module", params=NETWORKS)
def of_numbers(request) -> StableRegressor:
    return StableRegressor(**BRIEF, **NETWORKS[request.param]).fit(*price())


@pytest.fixture(scope="module")
def additive() -> StableClassifier:
    return StableClassifier(**BRIEF, **NETWORKS["additive"]).fit(*dirty())


def outputs(model: StableClassifier | StableRegressor, x: torch.Tensor) -> torch.Tensor:
    """What contributions add up to: log-odds of the second class, or the number in its own units."""
    with torch.no_grad():
        logits = model.model_(x)
    return logits[:, 0] * model.scale_ if isinstance(model, StableRegressor) else logits[:, 1] - logits[:, 0]


def sides(model: StableClassifier | StableRegressor) -> list[str]:
    return ["lower", "higher"] if isinstance(model, StableRegressor) else model.classes_.tolist()


def names_of(told: pd.DataFrame, rows: pd.Index) -> list[frozenset[str]]:
    named = told.groupby("row")["column"].agg(frozenset)
    return [named.get(label, frozenset()) for label in rows]


def names_at(model, x: torch.Tensor, n: int, sign: int) -> list[frozenset[str]]:
    """The names of lists by contributions to the second class, or against it, ranked here."""
    explainer = model.contributions_
    target = torch.full((len(x),), 0 if isinstance(model, StableRegressor) else 1)
    values = sign * explainer(model.model_, x, target).double()
    names = model.encoding_.column_names
    lists = [
        sorted(((v, c) for v, c in zip(own, names, strict=True) if v > 0), reverse=True) for own in values.tolist()
    ]
    return [frozenset(c for _, c in own[:n]) for own in lists]


def moved(model, x: torch.Tensor, radii: torch.Tensor, seed: int, scale: torch.Tensor) -> torch.Tensor:
    """Rows whose numbers, where there are any, move by radii in units of a scale, in random directions."""
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    domain = model.domain_
    direction[:, [*domain.frozen, *(i for group in domain.groups for i in group)]] = 0.0
    for value, flag in domain.absent:
        direction[:, value] *= x[:, flag] == 0
    return x + direction / direction.norm(dim=1, keepdim=True) * radii[:, None] * scale


# --- true and complete ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*were not there in fit")
@given(seed=st.integers(0, 2**32 - 1), network=st.sampled_from(list(NETWORKS)), numbers=st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_list_names_a_value_that_the_row_does_not_have_and_contributions_add_up(seed, network, numbers):
    frame, y = dirty(140, seed)
    kind = StableRegressor if numbers else StableClassifier
    options = {**BRIEF, **NETWORKS[network], "epochs": 2}
    model = kind(**options).fit(frame, frame["age"] / 7 + (y == "bad") if numbers else y)
    new = dirty(30, seed + 1)[0]
    new.index = [f"person {i}" for i in range(len(new))]
    told = {side: model.reasons(new, 99, toward=side, proven=False) for side in sides(model)}
    explained = [label for label in new.index if label not in told[sides(model)[0]].attrs["rows_not_explained"]]
    total = pd.Series(0.0, index=new.index)
    for sign, side in zip((-1, 1), sides(model), strict=True):
        lists = told[side]
        assert (lists["contribution"] > 0).all()
        assert not lists.duplicated(["row", "column"]).any()
        for label, column, value, text in zip(
            *(lists[c] for c in ("row", "column", "value", "text")), strict=True
        ):
            assert value == own_text(new.loc[label, column])
            assert text.startswith(f"{column} is {value}, which ")
        total = total.add(sign * lists.groupby("row")["contribution"].sum(), fill_value=0.0)
    both = [set(zip(lists["row"], lists["column"], strict=True)) for lists in told.values()]
    assert not both[0] & both[1]
    x = model.encode(new.loc[explained])
    expected = outputs(model, x) - outputs(model, model.background_.tensor).mean()
    np.testing.assert_allclose(total[explained], expected, rtol=0, atol=1e-6)


def test_texts_read_well(additive):
    frame = dirty()[0]
    phrases = {"income": "Your income of {value}.", "town": "You live in {value}."}
    told = additive.reasons(frame, 99, toward="bad", phrases=phrases, proven=False)
    texts = set(told["text"])
    assert "income is missing, which speaks for bad" in texts
    assert "town is missing, which speaks for bad" in texts or "member is missing, which speaks for bad" in texts
    assert not any("of missing" in text or "other values" in text or "NaT" in text for text in texts)
    both = pd.concat([told, additive.reasons(frame, 99, toward="good", phrases=phrases, proven=False)])
    assert {f"You live in {village}." for village in VILLAGES[:4]} <= set(both["text"])
    dates = both[both["column"] == "joined"]["value"]
    assert dates.map(lambda value: bool(re.fullmatch(r"\d{4}-\d\d-\d\d|missing", value))).all()


# --- how far it holds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", [0, 1])
def test_no_move_inside_the_radius_changes_a_list(fitted, side):
    check_radii(fitted, side, dirty()[0].head(40))


@pytest.mark.parametrize("side", [0, 1])
def test_no_move_inside_the_radius_changes_a_list_of_a_regressor(of_numbers, side):
    check_radii(of_numbers, side, dirty()[0].head(40))


def check_radii(model, side: int, frame: pd.DataFrame) -> None:
    """In standard deviations and in plausible changes: what is proven is kept, and of sums it is all there is."""
    told = model.reasons(frame, 3, toward=sides(model)[side], plausible="age=2,income=3%")
    assert told.attrs["proof"]["why_not"] is None
    x, sign = model.encode(frame), (-1, 1)[side]
    before = names_of(told, frame.index)
    assert names_at(model, x, 3, sign) == before
    changes = told.attrs["plausible"]
    assert changes["age"] == {"amount": 2.0, "percent": None}
    scale = torch.ones(x.shape[1], dtype=torch.float64)
    for place, name in enumerate(model.encoding_.names):
        if name in changes:
            column = next(c for c in model.encoding_.columns if c.name == name)
            scale[place] = changes[name]["amount"] / column.scale
    for unit, column in ((torch.ones_like(scale), "holds_within"), (scale, "holds_within_plausible")):
        own = told.groupby("row")[column].first()
        radii = torch.tensor([own.get(label, 0.0) for label in frame.index], dtype=torch.float64).nan_to_num(0.0)
        radii = radii.clamp_max(1e3)
        assert (radii > 0).double().mean() > 0.5
        near = [names_at(model, moved(model, x, 0.999 * radii, seed, unit), 3, sign) for seed in range(15)]
        assert all(after == before for after in near)
        # a move of several radii is seen: what is compared is not blind
        far = [names_at(model, moved(model, x, 4 * radii, seed, unit), 3, sign) for seed in range(15)]
        assert any(after != before for after in far)


def test_plausible_changes_of_a_standard_deviation_are_the_radius_itself(fitted):
    frame = dirty()[0].head(20)
    numbers = [column for column in fitted.encoding_.columns if column.kind == "number"]
    plausible = ",".join(f"{column.name}={column.scale!r}" for column in numbers)
    told = fitted.reasons(frame, 2, toward="bad", plausible=plausible)
    np.testing.assert_allclose(told["holds_within_plausible"], told["holds_within"], rtol=1e-5)
    plain = fitted.reasons(frame, 2, toward="bad")
    assert "holds_within_plausible" not in plain
    assert plain.attrs["plausible"] is None
    pd.testing.assert_frame_equal(told.drop(columns="holds_within_plausible"), plain)


def test_dates_may_move_as_far_as_the_words_say(additive):
    """Both ends, as ISO dates in a frame: the same columns are named; a month further some are not."""
    frame = dirty()[0]
    words = re.compile(r"^joined between (\S+) and (\S+), if nothing else changes$")
    tried, changed = 0, 0
    for side in sides(additive):
        told = additive.reasons(frame, 3, toward=side)
        before = dict(zip(frame.index, names_of(told, frame.index), strict=True))
        own = told[told["column"] == "joined"]
        spans = {
            label: words.match(said) for label, said in zip(own["row"], own["holds_within_units"], strict=True)
        }
        spans = {label: match for label, match in spans.items() if match}
        for end, beyond in ((1, -31), (2, 31)):
            for days in (0, beyond):
                other = frame.loc[list(spans)].copy()
                ends = pd.to_datetime([match[end] for match in spans.values()]) + pd.Timedelta(days=days)
                other["joined"] = ends.to_numpy()
                again = names_of(additive.reasons(other, 3, toward=side, proven=False), other.index)
                same = [names == before[label] for label, names in zip(spans, again, strict=True)]
                if days == 0:
                    assert all(same)
                    tried += len(same)
                else:
                    changed += same.count(False)
    assert tried > 30
    assert changed > 5


def test_numbers_with_holes_may_move_as_far_as_the_words_say(fitted, of_numbers):
    """Both ends, one column at a time, in a frame as a person has it; what is missing only stays."""
    words = re.compile(r"^(\w+) between (\S+) and (\S+), if nothing else changes$")
    frame, tried = dirty()[0].head(60), 0
    for model in (fitted, of_numbers):
        for side in sides(model):
            told = model.reasons(frame, 3, toward=side)
            before = dict(zip(frame.index, names_of(told, frame.index), strict=True))
            missing = told[told["value"] == "missing"]
            proven = missing["holds_within"] > 0
            assert (missing["holds_within_units"][proven] == missing["column"][proven] + " stays missing").all()
            for column in ("income", "age", "joined"):
                own = told[told["column"] == column]
                found = {
                    row: words.match(said) for row, said in zip(own["row"], own["holds_within_units"], strict=True)
                }
                spans = {row: match for row, match in found.items() if match}
                for end in (2, 3) if spans else ():
                    other, texts = frame.loc[list(spans)].copy(), [match[end] for match in spans.values()]
                    other[column] = (
                        pd.to_datetime(texts).to_numpy() if column == "joined" else np.array(texts, float)
                    )
                    again = names_of(model.reasons(other, 3, toward=side, proven=False), other.index)
                    assert again == [before[row] for row in spans]
                    tried += len(spans)
    assert tried > 60


@pytest.mark.parametrize(
    ("plausible", "message"),
    [
        ("agee=1", "no column 'agee' of numbers: did you mean 'age'"),
        ("town=1", "column 'town' holds no numbers"),
        ("age", "column=number"),
        ("age=0", "column=number"),
        (2, "plausible changes are"),
        ("", "plausible changes are"),
    ],
)
def test_plausible_changes_that_are_none(additive, plausible, message):
    with pytest.raises(InputError, match=message):
        additive.reasons(dirty()[0].head(2), plausible=plausible)


# --- a number that is predicted -------------------------------------------------------------------------------


def test_the_proof_is_that_of_the_model_with_one_output(of_numbers):
    frame = dirty()[0].head(25)
    told = of_numbers.reasons(frame, 2)
    direct = of_numbers.certify(frame, 2, explainer=of_numbers.contributions_)
    radii = pd.Series(direct.radius.numpy(), index=frame.index)[told["row"]].to_numpy()
    np.testing.assert_allclose(told["holds_within"], radii, rtol=1e-6)


def test_reasons_of_a_number_say_what_it_is(of_numbers, tmp_path):
    frame = dirty()[0].head(8)
    for toward, verb in (("higher", "raises"), ("lower", "lowers")):
        told = of_numbers.reasons(frame, toward=toward, proven=False)
        assert set(told["direction"]) == {f"{verb} the predicted price"}
        first = told.iloc[0]
        assert first["text"] == f"{first['column']} is {first['value']}, which {verb} the predicted price"
    own = of_numbers.reasons(frame, 99, phrases={"age": "At {value}: {toward} ({direction})."}, proven=False)
    assert set(own[own["column"] == "age"]["text"]) <= {
        f"At {age}: higher (raises the predicted price)." for age in frame["age"]
    }
    of_numbers.save(tmp_path / "model")
    again = StableRegressor.load(tmp_path / "model").reasons(frame, toward="lower", proven=False)
    pd.testing.assert_frame_equal(again, told)
    with pytest.raises(InputError, match="toward='highr' is none of the directions: did you mean 'higher'"):
        of_numbers.reasons(frame, toward="highr")
