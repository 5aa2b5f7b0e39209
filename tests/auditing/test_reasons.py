"""An audit of lists of reasons: lists that are shorter, their P@k, and kappa."""

import itertools

import pytest
import torch

import r2et
from r2et import report
from r2et.explainers import Background, Contributions
from tests.individuality.test_shorter_lists import shared
from tests.tables_with_traps import COLUMNS, DOMAIN, network, table


def test_an_audit_of_lists_of_reasons_goes_by_the_longer_list():
    model, x = network(), table(24)
    explainer = Contributions(columns=COLUMNS, background=Background(table(6, seed=40)), pairs=1)
    rows = r2et.tables.Rows(x, torch.arange(24) % 2, domain=DOMAIN, columns=COLUMNS)
    audit = r2et.audit(
        model, rows, k=5, explainer=explainer, radii=[0.5, 1.0], steps=5, budget="fast", certificate=False
    )
    scores = explainer(model, x)
    samples = audit.samples
    names = [{i for i in row if i >= 0} for row in samples.top[:, 0].tolist()]
    assert any(len(listed) < 5 for listed in names), "there are shorter lists"
    for own, listed in zip(scores, names, strict=True):
        assert listed == {int(i) for i in own.topk(5).indices if own[i] > 0}
    assert (samples.top_scores[samples.top >= 0] > 0).all()
    assert (samples.top_scores[samples.top < 0] == 0).all()
    assert samples.in_top.tolist() == [sum(i in listed for listed in names) for i in range(7)]
    for radius in range(2):
        for row, listed in enumerate(names):
            after = {i for i in samples.after[radius, row, 0].tolist() if i >= 0}
            assert float(samples.precision[radius, row]) == pytest.approx(shared(listed, after))
    classes = model(x).argmax(1).tolist()
    pairs = [(a, b) for a, b in itertools.combinations(range(24), 2) if classes[a] == classes[b]]
    expected = sum(shared(names[a], names[b]) for a, b in pairs) / len(pairs)
    assert audit.individuality.overlap == pytest.approx(expected)
    assert audit.feature_names == COLUMNS.names
    assert "age" in report.render(audit)
    assert audit.summary()
