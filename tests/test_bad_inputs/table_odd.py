"""Odd kinds of arguments: numbers too large for torch, and tensors that are no plain arrays."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import r2et
from r2et import (
    auditing,
    certificates,
    data,
    integrations,
    metrics,
    models,
    objectives,
    predictors,
    recipes,
    report,
    tables,
    training,
)
from tests.test_bad_inputs.objects import (
    ER,
    FRAME,
    GRAPH,
    GRAPHS,
    NET,
    ROWS,
    SCORES,
    TABLE,
    X,
    Y,
    attack,
    audited,
    classifier,
    dataset,
    fitted,
    reasons,
    row,
)

HUGE = 10**30
META = torch.ones(5, 6, device="meta")
with warnings.catch_warnings():
    # torch warns that nested tensors are new
    warnings.simplefilter("ignore")
    NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
SPARSE = torch.eye(6).to_sparse()
MASKED = np.ma.masked_array(TABLE, mask=np.eye(5, 6))
R2ET = objectives.R2ET(k=2)
FOLDER = Path(__file__).parent
HERE = tables.LabelledTable(FOLDER / "people.csv", FRAME, "y", pd.Series(Y.numpy()))
OPENED = predictors.OpenedModel("mine", "mine", "factory", NET)
SAME = pd.DataFrame({"job": [*["cook", "nurse", "pilot"] * 3, "cook"], "job: cook": range(10)})
INFERENCE_X = torch.inference_mode()(torch.ones)(5, 6)


class _NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


ODD = [
    # --- numbers that are too large -----------------------------------------------------------------------------
    row("attacks.ERAttack: radius of 1e40", lambda: attack(radius=1e40), "radius=1e+40", "below 1e+18"),
    row("attacks.ERAttack: radius of many digits", lambda: attack(radius=HUGE), "radius=", "below 1e+18"),
    row("attacks.ERAttack: cap", lambda: attack(cap=1e40), "cap=1e+40"),
    row("attacks.ERAttack: steps of many digits", lambda: attack(steps=HUGE), "steps=", "at most 2**63 - 1"),
    row("attacks.ERAttack: radii", lambda: ER(NET, X, radii=[0.1, 1e40]), "radius=1e+40"),
    row("attacks.ERAttack: chunk_size, odd", lambda: ER(NET, X, chunk_size=HUGE), "chunk_size=", "2**63 - 1"),
    row(
        "certificates.first_order: chunk_size, odd",
        lambda: certificates.first_order(NET, X, 2, chunk_size=HUGE),
        "2**63",
    ),
    row("certificates.noisy_counts: huge", lambda: certificates.noisy_counts(NET, X, 2, sigma=HUGE), "sigma="),
    row("thickness_bounds: radius, odd", lambda: r2et.thickness_bounds(NET, X, 2, HUGE), "radius=", "below 1e+18"),
    row("audit: steps of many digits", lambda: audited(steps=HUGE), "steps=", "2**63 - 1"),
    row("models.ResNet: classes of many digits", lambda: models.ResNet(1, 10**12, (4,), 1), "ResNet", "weights"),
    # --- tensors that are no plain arrays -----------------------------------------------------------------------
    row("audit: x is on meta", lambda: audited(META), "'meta'", "no numbers"),
    row("audit: x is nested", lambda: audited(NESTED), "nested", "to_dense"),
    row("audit: k is nested", lambda: audited(k=NESTED), "k=", "type Tensor"),
    row("audit: labels are nested", lambda: audited(y=NESTED), "labels", "Tensor"),
    row("audit: k cannot be shown", lambda: audited(k=_NoRepr()), "k=", "_NoRepr"),
    row("audit: x is masked", lambda: audited(MASKED), "5 masked values"),
    row("audit: columns of one name", lambda: audited(FRAME.set_axis(["a"] * 6, axis=1)), "columns called 'a'"),
    row("audit: feature_names is a number", lambda: audited(feature_names=torch.tensor(1.0)), "feature_names"),
    row("certify: x is on meta", lambda: r2et.certify(NET, META, 2), "'meta'"),
    row("precision_at_k: sparse", lambda: r2et.precision_at_k(SPARSE, SPARSE, 2), "scores_a", "(6, 6)"),
    row("precision_at_k: truth values", lambda: r2et.precision_at_k(SCORES > 1, SCORES, 2), "scores_a"),
    row("rank_correlation: on meta", lambda: r2et.ranking.rank_correlation(META, META), "scores_a"),
    row("Domain: lower is packed", lambda: r2et.Domain(lower=torch.ones(6).to_mkldnn()), "lower="),
    row("Domain: frozen is a number, odd", lambda: r2et.Domain(frozen=torch.tensor(1)), "frozen="),
    row("Domain: groups of numbers", lambda: r2et.Domain(groups=torch.arange(3)), "groups[0]="),
    row(
        "metrics.faithfulness: fractions",
        lambda: metrics.faithfulness(NET, X, fractions=torch.ones(2)),
        "fractions",
    ),
    row("objectives.R2ET: inference", lambda: R2ET(NET, INFERENCE_X, Y), "x.clone()"),
    row("integrations.penalty: inference", lambda: integrations.penalty(R2ET, NET, INFERENCE_X), "clone"),
    row("data.load_graphs: labels, odd", lambda: data.load_graphs(GRAPHS, torch.tensor(1.0)), "labels"),
    # --- what is of another kind --------------------------------------------------------------------------------
    row("fit: model is None", lambda: r2et.fit(None, ROWS, ROWS), "got None"),
    row("fit: epochs of many digits", lambda: fitted(epochs=HUGE), "epochs="),
    row("integrations.penalty: model", lambda: integrations.penalty(R2ET, None, X), "got None"),
    row("integrations.penalty: width", lambda: integrations.penalty(R2ET, torch.nn.Linear(2, 2), X), "(5, 6)"),
    row("Retraining: negative share", lambda: r2et.training.Retraining(NET, min_precision=-1), "min_precision=-1"),
    row("Retraining: share above 1", lambda: r2et.training.Retraining(NET, max_auc_drop=2), "max_auc_drop=2"),
    row("training.WeightedRows: x", lambda: training.WeightedRows(None, Y), "NoneType"),
    row("training.WeightedRows: y", lambda: training.WeightedRows(X, "labels"), "labels", "str"),
    row("recipes.select: a number", lambda: recipes.select(3), "trials=3"),
    row("models.SingleInput: retrain", lambda: models.SingleInput(NET, 2, 2, retrain="no"), "retrain='no'"),
    row("attacks.ERAttack: progress", lambda: ER(NET, X, progress="yes"), "progress='yes'"),
    row("attacks.ERAttack: predictions give 1", lambda: attack(predictions=lambda x: 1)(NET, X), "predictions"),
    row(
        "report.connectome_matrix: title",
        lambda: report.connectome_matrix(X[0], X[1], GRAPH, 2, title=3),
        "title=3",
    ),
    row("report.magnitude_by_rank: title", lambda: report.magnitude_by_rank({"a": SCORES}, 2, title=3), "title=3"),
    row("report.lobes: a tensor", lambda: report.lobes(torch.tensor(1.0)), "regions="),
    row("data.Dataset: names end when read", lambda: dataset(feature_names=iter("abcde")), "5 feature names"),
    # --- tables -------------------------------------------------------------------------------------------------
    row("tables.class_order: count", lambda: tables.class_order(pd.Series([0, 1]), "two"), "count='two'"),
    row("tables.class_order: order, odd", lambda: tables.class_order(pd.Series([0, 1]), order=5), "order=5"),
    row("tables.class_numbers: classes", lambda: tables.class_numbers(pd.Series([0]), 5), "classes=5"),
    row("tables.class_numbers: lists", lambda: tables.class_numbers(pd.Series([0]), [[0]]), "classes=[[0]]"),
    row("auditing.Outcome: scale", lambda: auditing.Outcome(scale=0), "scale=0"),
    row("auditing.choose_rows: models", lambda: auditing.choose_rows(HERE, [NET]), "models"),
    row("auditing.choose_rows: every", lambda: auditing.choose_rows(HERE, every="no"), "every='no'"),
    row("auditing.from_table: rows before", lambda: auditing.from_table(OPENED, HERE, [-1]), "rows=[-1]"),
    row("auditing.from_table: rows are text", lambda: auditing.from_table(OPENED, HERE, "all"), "rows='all'"),
    row("auditing.from_table: no rows", lambda: auditing.from_table(OPENED, HERE, []), "rows=[]"),
    row(
        "auditing.from_data_set: options",
        lambda: auditing.from_data_set(OPENED, "digits", options=3),
        "options=3",
    ),
    row("auditing.from_data_set: name", lambda: auditing.from_data_set(OPENED, TABLE), "name="),
    row(
        "predictors.open_model: arguments",
        lambda: predictors.open_model("torch.nn:Linear", arguments=3),
        "arguments=3",
    ),
    row(
        "predictors.load_from_factory: weights",
        lambda: predictors.load_from_factory("torch.nn:ReLU", weights=3),
        "weights=3",
    ),
    # --- the classifier: what scikit-learn says is an error of ours too -----------------------------------------
    row("StableClassifier: X is None", lambda: classifier(X=None), "2D array"),
    row("StableClassifier: X has three axes", lambda: classifier(X=np.ones((10, 2, 2))), "dim 3"),
    row("StableClassifier: X is ragged", lambda: classifier(X=[[1, 2], [1]] * 5), "inhomogeneous"),
    row("StableClassifier: X is masked", lambda: classifier(X=np.ma.masked_less(TABLE, 0)), "masked values"),
    row("StableClassifier: y is None", lambda: classifier(y=None), "requires y"),
    row("StableClassifier: y of fractions", lambda: classifier(y=np.linspace(0, 1, 10)), "continuous"),
    row("StableClassifier: y has a hole", lambda: classifier(y=[0.0, np.nan] * 5), "NaN"),
    row("StableClassifier: weights have a hole", lambda: classifier(sample_weight=np.full(10, np.nan)), "NaN"),
    row("StableClassifier: random_state, odd", lambda: classifier(random_state=-1), "2**32"),
    row("StableClassifier: features of one name", lambda: classifier(X=SAME), "'job: cook'"),
]  # fmt: skip

# reasons
ODD += [
    row("StableClassifier: reasons, n is text", lambda: reasons(n="4"), "n='4'"),
    row(
        "StableClassifier: reasons, n is huge and negative",
        lambda: reasons(n=-HUGE),
        "n must be a whole number of at least 1",
    ),
    row("StableClassifier: reasons, n is true", lambda: reasons(n=True), "n=True"),
    row("StableClassifier: reasons, no such class", lambda: reasons(toward=7), "toward=7 is none of the classes"),
    row("StableClassifier: reasons, toward is a tensor", lambda: reasons(toward=META), "is none of the classes"),
    row(
        "StableClassifier: reasons, toward is its own", lambda: reasons(toward=_NoRepr()), "is none of the classes"
    ),
    row(
        "StableClassifier: reasons, exclude is text",
        lambda: reasons(exclude="x0"),
        "exclude must be a list of names",
    ),
    row(
        "StableClassifier: reasons, no such column", lambda: reasons(exclude=["x9"]), "no column 'x9' to leave out"
    ),
    row("StableClassifier: reasons, phrases is text", lambda: reasons(phrases="x0"), "phrases must be such as"),
    row(
        "StableClassifier: reasons, an unknown place",
        lambda: reasons(phrases={"x0": "{age}"}),
        "{age}",
        "{direction}",
    ),
    row(
        "StableClassifier: reasons, proven is text",
        lambda: reasons(proven="no"),
        "proven must be True or False",
        "'no'",
    ),
    row(
        "StableClassifier: reasons, plausible is a number",
        lambda: reasons(plausible=0.1),
        "plausible changes are",
        "0.1",
    ),
    row(
        "StableClassifier: reasons, plausible, no such column",
        lambda: reasons(plausible="x9=1"),
        "no column 'x9' of numbers",
    ),
    row(
        "StableClassifier: reasons, plausible is infinite",
        lambda: reasons(plausible="x0=inf"),
        "column=number",
        "'x0=inf'",
    ),
    row("StableClassifier: reasons, a column too few", lambda: reasons(X=TABLE[:, :5]), "5 features"),
    row(
        "StableClassifier: reasons, X has a hole", lambda: reasons(X=np.full((2, 6), np.nan)), "missed none in fit"
    ),
    row("StableClassifier: reasons, X is a list of nothing", lambda: reasons(X=[None]), "2D array"),
    row(
        "StableRegressor: reasons of a number, a class",
        lambda: reasons(number=True, toward="yes"),
        "none of the directions",
    ),
    row(
        "StableRegressor: reasons of a number, no phrase",
        lambda: reasons(number=True, phrases={"x0": 3}),
        "phrases['x0']",
    ),
]
