"""Whatever a person passes to a public function by mistake: one sentence of r2et's own, which quotes it."""

import inspect
import json
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import r2et
import r2et_bench
from r2et.errors import InputError
from r2et.numerics import values as checks
from tests.test_bad_inputs.objects import NET, TABLE, Row, X, Y, audited, classifier
from tests.test_bad_inputs.table_measuring import MEASURING
from tests.test_bad_inputs.table_odd import ODD
from tests.test_bad_inputs.table_training import TRAINING

TABLE_OF_ROWS = [*MEASURING, *TRAINING, *ODD]

#: public names without a row, and why
WITHOUT_A_ROW = {
    **dict.fromkeys(
        ("CheckpointError", "ContradictionError", "DataError", "InputError", "ModelError", "TrustError"),
        "errors: r2et raises them, nobody calls them",
    ),
    **dict.fromkeys(
        (
            "AttackResult",
            "Audit",
            "auditing.AttackRow",
            "auditing.Example",
            "auditing.Made",
            "auditing.OwnRows",
            "auditing.Reason",
            "auditing.Source",
            "tables.Units",
            "auditing.AuditSettings",
            "auditing.KappaBracket",
            "auditing.Picture",
            "auditing.Samples",
            "Bracket",
            "tables.Encoding",
            "FitResult",
            "certificates.StatisticalStability",
            "data.Info",
            "individuality.Kappa",
            "integrations.Penalty",
            "tables.LabelledTable",
            "predictors.OpenedModel",
            "tables.Origin",
            "tables.TableReport",
            "predictors.Program",
            "auditing.Subject",
            "objectives.Loss",
            "stability.ThicknessBounds",
            "recipes.Trial",
            "validate.Finding",
            "validate.Report",
        ),
        "what r2et returns: it makes them itself",
    ),
    **dict.fromkeys(
        (
            "scores.presented",
            "scores.runners_up",
            "scores.same_prediction",
            "scores.settled",
            "scores.single",
            "scores.slack",
        ),
        "parts of formulas, of logits that somebody has looked at: `check_logits` has the checks",
    ),
    **dict.fromkeys(
        ("enclosure.Ball", "enclosure.Box", "enclosure.Network", "enclosure.march"),
        "parts of a proof, made of each other: `certify` has the checks",
    ),
    **dict.fromkeys(
        (
            "attacks.Evaluation",
            "attacks.GradientDescentAttack",
            "attacks.Best",
            "attacks.Judge",
            "attacks.Task",
            "data.Request",
            "data.Source",
            "data.register",
            "objectives.ExplainedBatch",
            "training.Batch",
            "objectives.Regularised",
            "objectives.Term",
        ),
        "for those who write their own: what a subclass extends, decorates or is handed",
    ),
    "recipes.method_title": "any text is a title",
    **dict.fromkeys(
        ("scores.checked_target", "scores.logits_of", "scores.prediction"),
        "steps of functions that have rows",
    ),
    **dict.fromkeys(
        ("bench.Tracker", "certificates.Method", "stability.Aggregate", "stability.Variant"),
        "types for annotations",
    ),
}


@pytest.mark.timeout(20)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", TABLE_OF_ROWS, ids=lambda entry: entry.name)
def test_a_bad_argument_gives_one_sentence_that_quotes_it(entry: Row, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = X.clone(), Y.clone(), TABLE.copy(), [weight.clone() for weight in NET.parameters()]
    with pytest.raises(entry.family) as caught:
        entry.call()
    sentence = str(caught.value)
    for word in entry.words:
        assert word in sentence
    assert len(sentence) < 600
    assert not list(tmp_path.iterdir()), "a refused call writes nothing"
    assert torch.equal(X, before[0])
    assert torch.equal(Y, before[1])
    np.testing.assert_array_equal(TABLE, before[2])
    assert all(map(torch.equal, NET.parameters(), before[3]))


#: packages that people reach through those of the face
INNER = ("auditing", "certificates", "checkpoints", "enclosure", "integrations", "predictors", "ranking", "scores")
INNER += ("individuality", "stability", "training")


def public() -> dict[str, Any]:
    """Every public callable by name; of several names the shortest."""
    found: dict[int, tuple[str, Any]] = {}
    faces = {name: getattr(r2et, name) for name in (*r2et.__all__, *INNER)} | {"bench": r2et_bench}
    for name, value in sorted(faces.items(), key=lambda entry: isinstance(entry[1], ModuleType)):
        inner = {name: value}
        if isinstance(value, ModuleType):
            own = [key for key, entry in vars(value).items() if getattr(entry, "__module__", "") == value.__name__]
            names = getattr(value, "__all__", [key for key in own if key[0] != "_"])
            inner = {f"{name}.{key}": getattr(value, key) for key in names}
        for full, entry in inner.items():
            if callable(entry):
                found.setdefault(id(entry), (full, entry))
    return dict(found.values())


def takes_arguments(entry: Any) -> bool:
    try:
        return bool(inspect.signature(entry).parameters)
    except ValueError:  # a class of exceptions
        return True


def in_full(name: str, known: Iterable[str]) -> str:
    """The public name that ends like this: rows leave out a package of the face."""
    # what is on the face itself is known by its shortest name
    alike = [other for other in known if other in (name, name.rpartition(".")[2]) or other.endswith(f".{name}")]
    return min(alike, key=lambda other: (other != name, other.partition(".")[0] not in r2et.__all__), default=name)


def test_every_public_callable_has_a_row() -> None:
    known = public()
    # a registry is an object: its methods have rows of their own
    called = {in_full(row.target, known) for row in TABLE_OF_ROWS if not row.target.startswith("EXPLAINERS.")}
    excepted = {in_full(name, known) for name in WITHOUT_A_ROW}
    missing = [name for name in known if takes_arguments(known[name]) and name not in called | excepted]
    assert not missing
    assert called <= set(known), "a row of something that is not public"
    assert excepted <= set(known), "an exception for something that is not public"
    assert not called & excepted


def test_names_of_rows_are_unique_and_there_are_many() -> None:
    names = [row.name for row in TABLE_OF_ROWS]
    assert len(set(names)) == len(names)
    assert len(names) >= 220


# --- what needs more than a line --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_audit() -> Any:
    return audited(x=X[:2], y=Y[:2], certificate=False, k=2, radii=[0.5], seed=3)


def test_a_report_that_cannot_be_written(small_audit, tmp_path) -> None:
    (tmp_path / "file").touch()
    for path, words in ((5, "path=5"), (None, "path=None"), (tmp_path / "file" / "a.html", "cannot write")):
        with pytest.raises(InputError, match=words):
            r2et.report.write(small_audit, path)
    with pytest.raises(InputError, match=r"cannot write .*it is a folder"):
        r2et.report.write(small_audit, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_bad_arguments_of_a_fitted_classifier(tmp_path) -> None:
    fitted = classifier()
    for call, words in (
        (lambda: fitted.explain(TABLE, k="3"), "'3'"),
        (lambda: fitted.explain(TABLE, k=6), "k=6"),
        (lambda: fitted.explain(TABLE, radius="no"), "radius='no'"),
        (lambda: fitted.certify(TABLE, k=2.0), "2.0"),
        (lambda: fitted.audit(TABLE, Y.numpy(), radii=0.5), "radii=0.5"),
        (lambda: fitted.audit(TABLE, [0, 1]), "2 labels for 5 rows"),
        (lambda: fitted.audit(TABLE, [7] * 5), "label 7 in row 0"),
        (lambda: fitted.save(None), "folder=None"),
        (lambda: r2et.StableClassifier.load(5), "folder=5"),
    ):
        with pytest.raises(InputError, match=words):
            call()


# --- good inputs stay good --------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, np.int64(2), np.int8(2), torch.tensor(2)])
def test_whole_numbers_of_any_library_are_whole_numbers(number) -> None:
    checks.check_count("k", number)
    checks.check_k(number, 5)
    checks.check_seed(number)


@pytest.mark.parametrize(
    "number", [2.0, "2", True, np.True_, None, torch.tensor(True), torch.tensor([2]), 2j, np.array(2)]
)
def test_what_is_no_whole_number(number) -> None:
    for check in (lambda: checks.check_count("k", number), lambda: checks.check_seed(number)):
        with pytest.raises(InputError, match="whole number"):
            check()


@pytest.mark.parametrize("number", [1, 0.5, np.float32(0.5), np.int64(1), torch.tensor(0.5)])
def test_numbers_of_any_library_are_numbers(number) -> None:
    checks.check_positive("radius", number)
    checks.check_weight("gap", number)
    checks.check_share("part", number)
    checks.check_number("gap", number, 0, 1)


@pytest.mark.parametrize(
    "number", ["1", None, True, 1j, [1.0], torch.ones(1), np.array(0.5), 10**400, float("nan"), float("inf")]
)
def test_what_is_no_finite_number(number) -> None:
    for check in (checks.check_positive, checks.check_weight, checks.check_share, checks.check_number):
        with pytest.raises(InputError, match="number"):
            check("radius", number)


@pytest.mark.parametrize(
    ("low", "high", "inside", "words"),
    [
        (0.0, float("inf"), False, "at least 0"),
        (-float("inf"), 3.0, False, "at most 3"),
        (0.0, 3.0, False, "from 0 to 3"),
        (0.0, 3.0, True, "between 0 and 3"),
    ],
)
def test_the_sentence_about_a_number_says_where_it_must_lie(low, high, inside, words) -> None:
    with pytest.raises(InputError, match=words):
        checks.check_number("gap", 5.0 if high < 5 else -5.0, low, high, inside=inside)
    checks.check_number("gap", 1.0, low, high, inside=inside)
    if inside:
        with pytest.raises(InputError, match="gap=3"):
            checks.check_number("gap", 3, low, high, inside=True)


def test_numbers_of_numpy_give_the_audit_that_python_numbers_give(small_audit) -> None:
    numbers: dict[str, Any] = {"k": np.int64(2), "radii": np.array([0.5]), "seed": np.int64(3)}
    theirs = audited(x=X[:2], y=Y[:2], certificate=False, **numbers)
    assert json.dumps(small_audit.to_dict()) == json.dumps(theirs.to_dict())


def test_bounds_of_any_library_mean_the_same() -> None:
    x, start = torch.tensor([[3.0, -3.0]]), torch.zeros(1, 2)
    bounds = (1.0, np.float64(1.0), torch.tensor(1.0), torch.ones(2), np.ones(2), [1.0, 1.0], 1)
    for upper in bounds:
        assert r2et.Domain(upper=upper, lower=-float("inf")).reach("domain", 2).clamp(x, start).tolist() == [
            [1.0, -3.0]
        ]


def test_training_takes_a_list_of_two_as_a_pair() -> None:
    net = torch.nn.Linear(6, 2)
    assert (
        r2et.fit(net, [X, Y], [X, Y], settings=r2et.training.Settings(epochs=1, accelerator="cpu")).stopped
        == "epochs"
    )
