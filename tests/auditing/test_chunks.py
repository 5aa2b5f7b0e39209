import pytest
import torch
from torch import nn

import r2et
from r2et import audit
from r2et.attacks import WorstCase
from r2et.auditing.chunks import RowNeighbours
from tests.auditing.toys import RADII, X, Y
from tests.domain.test_reach import DOMAIN, table_rows


def test_a_row_does_not_depend_on_its_chunk(report, fragile):
    chunked = audit(fragile, X, Y, k=2, radii=RADII, budget="fast", steps=30, seed=4, chunk_size=10)
    torch.testing.assert_close(chunked.thickness, report.thickness)
    for name in ("top", "after", "precision", "noise", "labels", "predicted", "in_top", "leaves", "enters"):
        assert torch.equal(getattr(chunked.samples, name), getattr(report.samples, name)), name
    for name in ("distance", "probability", "after_scores", "certified", "moved_from", "moved_by"):
        torch.testing.assert_close(getattr(chunked.samples, name), getattr(report.samples, name))
    for a, b in zip(chunked.attacks, report.attacks, strict=True):
        assert a.precision == b.precision
        assert a.distance == pytest.approx(b.distance)
    assert chunked.faithfulness == pytest.approx(report.faithfulness)
    assert chunked.verdict() == report.verdict()


def test_thickness_is_measured_within_reach():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).double(), table_rows(12)
    neighbours = RowNeighbours(0.5, 3, DOMAIN.reach("domain", 8))
    drawn = neighbours.draw(model, x, 4, None)
    assert torch.equal(drawn[..., 1:7], x[:, 1:7].expand(4, -1, -1))
    assert bool((drawn[..., 0] != x[:, 0]).all())
    y = model(x).argmax(1)
    audits = {
        threat: audit(
            model, x, y, k=3, radii=[2.0], budget="fast", steps=2, domain=DOMAIN, threat=threat, certificate=False
        )
        for threat in ("domain", "tangent")
    }
    for threat, made in audits.items():
        sigma = RowNeighbours(made.settings.thickness_sigma, made.settings.seed)
        direct = r2et.thickness(model, x, 3, neighbours=sigma, domain=DOMAIN, threat=threat)
        torch.testing.assert_close(made.thickness, direct, atol=1e-12, rtol=0)
    assert not torch.equal(audits["domain"].thickness, audits["tangent"].thickness)


def test_samples_are_what_the_worst_case_found(report, fragile):
    results = WorstCase(k=2, radius=1.0, budget="fast")(fragile, X, seed=4, radii=RADII)
    samples = report.samples
    assert samples.radii == RADII
    scores = r2et.explainers.Gradient()(fragile, X)
    assert samples.top[:, 0].tolist() == scores.topk(2).indices.tolist()
    for number, result in enumerate(results):
        assert samples.after[number, :, 0].tolist() == result.after.topk(2).indices.tolist()
        torch.testing.assert_close(samples.precision[number], result.precision)
        lost = [
            {*a} - {*b}
            for a, b in zip(samples.top[:, 0].tolist(), samples.after[number, :, 0].tolist(), strict=True)
        ]
        assert samples.leaves[number].tolist() == [sum(i in row for row in lost) for i in range(6)]
    assert samples.in_top.tolist() == [int((samples.top == i).sum()) for i in range(6)]
    delta = results[-1].x - X
    torch.testing.assert_close(samples.moved_by, delta.gather(1, samples.moved.long()))
    assert samples.moved.shape == (24, 6)
    torch.testing.assert_close(samples.certified, r2et.certify(fragile, X, 2).radius)
    assert float((samples.precision[0] - report.certificate.precision_at(RADII[0])).min()) >= -1e-9
    probabilities = fragile(X).softmax(1)
    torch.testing.assert_close(samples.probability, probabilities.amax(1).detach())
    assert samples.predicted.tolist() == probabilities.argmax(1).tolist()


class Interrupted(nn.Module):
    """Somebody presses Ctrl-C when a certain row is attacked."""

    def __init__(self, inner: nn.Module, row: torch.Tensor) -> None:
        super().__init__()
        self.inner, self.row = inner, row

    def forward(self, x):
        if torch.is_grad_enabled() and x.shape[0] < 24 and torch.equal(x[0], self.row):
            raise KeyboardInterrupt
        return self.inner(x)


def test_an_interrupt_keeps_the_rows_that_are_done(fragile):
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 3, "certificate": False}
    found = audit(Interrupted(fragile, X[16]), X, Y, chunk_size=8, **options)
    # with as much around it: what cannot be read is searched another way
    whole = audit(Interrupted(fragile, X[16] + 1), X[:16], Y[:16], chunk_size=8, **options)
    assert (found.complete, found.rows, found.requested) == (False, 16, 24)
    assert whole.complete
    assert found.verdict() == whole.verdict() + " Interrupted: only the first 16 of 24 inputs were audited."
    assert found.attacks == whole.attacks
    assert (found.accuracy, found.auc) == (whole.accuracy, whole.auc)
    assert len(found.samples) == len(found.thickness) == 16
    assert found.to_dict()["complete"] is False
    assert "Interrupted" in found.summary()


def test_an_interrupt_of_the_first_chunk_is_one(fragile):
    with pytest.raises(KeyboardInterrupt):
        audit(Interrupted(fragile, X[0]), X, Y, k=2, radii=(0.5,), budget="fast", chunk_size=8)
