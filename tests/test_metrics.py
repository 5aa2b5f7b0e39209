import math
from dataclasses import replace

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from r2et import metrics
from r2et.attacks import AttackResult, ERAttack
from r2et.domain import without_gauge
from r2et.errors import InputError, ModelError
from r2et.explainers import Activation, ColumnEffects, Gradient, GradientTimesInput
from tests import tables_with_traps as traps


def linear(weights: list[float], bias: float = 0.0) -> nn.Linear:
    """A two-class model with log-odds weights . x + bias."""
    model = nn.Linear(len(weights), 2).double()
    model.weight.data = torch.tensor([[0.0] * len(weights), weights], dtype=torch.float64)
    model.bias.data = torch.tensor([0.0, bias], dtype=torch.float64)
    return model


def net(n: int = 5, classes: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.Linear(8, classes)).double()


class Siamese(nn.Module):
    """Pairs (N, 2, n) to logits (N, 2)."""

    def __init__(self, n: int) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.embed = nn.Linear(n, 6)

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.embed(x).tanh().unbind(1)
        similar = 2 * (a * b).sum(1)
        return torch.stack([-similar, similar], 1)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def result_of(before: Tensor, after: Tensor, kept: Tensor) -> AttackResult:
    nothing = torch.zeros(len(before))
    return AttackResult(torch.zeros(len(before), 3), nothing, kept, nothing, nothing.long(), before, after)


def by_loops(model, x, explainer, baseline, sizes):
    """DFFOT, COMP and SUFF one sample, one k and one feature at a time."""
    rows = []
    for row in x:
        logits = model(row[None])[0].detach()
        c = int(logits.argmax())
        clean = logits.softmax(0)[c]
        scores = explainer(model, row[None])[0].reshape(explainer.inputs, -1)
        n = scores.shape[1]
        flip, comp, suff = 1.0, 0.0, 0.0
        for k in sizes:
            removed, kept = row.clone(), torch.full_like(row, baseline)
            # views in the layout input, [channel,] feature; writing to them writes to the row
            shape = (explainer.inputs, -1, n)
            for i in range(explainer.inputs):
                order = sorted(range(n), key=lambda j: (-float(scores[i, j]), j))
                for j in order[:k]:
                    removed.view(shape)[i, :, j] = baseline
                    kept.view(shape)[i, :, j] = row.view(shape)[i, :, j]
            without, alone = model(removed[None])[0].detach(), model(kept[None])[0].detach()
            comp += float((clean - without.softmax(0)[c]).abs()) / len(sizes)
            suff += float((clean - alone.softmax(0)[c]).abs()) / len(sizes)
            if int(without.argmax()) != c:
                flip = min(flip, k / n)
        rows.append((flip, comp, suff))
    return torch.tensor(rows, dtype=torch.float64).T.unbind(0)


def test_faithfulness_of_a_linear_model_by_hand():
    # log-odds 3 - 2 + 0.5 = 1.5; ranks by |weight|: 0, 1, 2
    model, x = linear([3.0, -2.0, 1.0]), torch.tensor([[1.0, 1.0, 0.5]], dtype=torch.float64)
    clean = sigmoid(1.5)
    comp = (abs(clean - sigmoid(-1.5)) + abs(clean - sigmoid(0.5)) + abs(clean - 0.5)) / 3
    suff = (abs(clean - sigmoid(3.0)) + abs(clean - sigmoid(1.0)) + 0.0) / 3
    assert metrics.comprehensiveness(model, x).item() == pytest.approx(comp, abs=1e-12)
    assert metrics.sufficiency(model, x).item() == pytest.approx(suff, abs=1e-12)
    assert metrics.dffot(model, x).item() == pytest.approx(1 / 3)


def test_a_prediction_that_no_removal_flips_has_dffot_one():
    model, x = linear([1.0, 1.0], bias=5.0), torch.ones(2, 2, dtype=torch.float64)
    assert metrics.dffot(model, x).tolist() == [1.0, 1.0]


def test_dffot_counts_from_the_most_important_feature():
    # both features must go before the bias decides
    model, x = linear([3.0, 2.0], bias=-1.0), torch.ones(1, 2, dtype=torch.float64)
    assert metrics.dffot(model, x).item() == 1.0
    model = linear([3.0, 1.0, 0.5], bias=-1.2)
    # 3.3; without the first 0.3; without two -0.7
    assert metrics.dffot(model, torch.ones(1, 3, dtype=torch.float64)).item() == pytest.approx(2 / 3)


def test_the_baseline_is_what_a_removed_feature_becomes():
    model, x = linear([3.0, 1.0]), torch.ones(1, 2, dtype=torch.float64)
    clean = sigmoid(4.0)
    by_number = (abs(clean - sigmoid(3 * -1 + 1)) + abs(clean - sigmoid(-4.0))) / 2
    assert metrics.comprehensiveness(model, x, baseline=-1.0).item() == pytest.approx(by_number)
    by_tensor = (abs(clean - sigmoid(3 * 2 + 1)) + abs(clean - sigmoid(6 - 3))) / 2
    assert metrics.comprehensiveness(model, x, baseline=torch.tensor([2.0, -3.0])).item() == pytest.approx(
        by_tensor
    )


@pytest.mark.parametrize("chunk_size", [None, 1, 7, 1000])
@pytest.mark.parametrize("fractions", [None, (0.1, 0.5, 0.3)])
@pytest.mark.parametrize("explainer", [Gradient(), GradientTimesInput(reduce="signed")])
def test_faithfulness_equals_explicit_loops(explainer, fractions, chunk_size):
    model, x = net(), torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    # round(0.1 * 5) is 0, and at least one feature is removed; round(0.5 * 5) and round(0.3 * 5) are both 2
    sizes = range(1, 6) if fractions is None else [1, 2]
    options = {"explainer": explainer, "baseline": 0.5, "fractions": fractions, "chunk_size": chunk_size}
    flip, comp, suff = by_loops(model, x, explainer, 0.5, sizes)
    torch.testing.assert_close(metrics.dffot(model, x, **options), flip)
    torch.testing.assert_close(metrics.comprehensiveness(model, x, **options), comp)
    torch.testing.assert_close(metrics.sufficiency(model, x, **options), suff)
    assert flip.unique().numel() > 1


def test_pairs_lose_features_of_both_inputs():
    model = Siamese(4).double()
    x = torch.randn(7, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    explainer = Gradient(inputs=2)
    flip, comp, suff = by_loops(model, x, explainer, 0.0, range(1, 5))
    torch.testing.assert_close(metrics.dffot(model, x, explainer=explainer), flip)
    torch.testing.assert_close(metrics.comprehensiveness(model, x, explainer=explainer), comp)
    torch.testing.assert_close(metrics.sufficiency(model, x, explainer=explainer), suff)


def test_summed_channels_are_removed_together():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Flatten(), nn.Linear(18, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    x = torch.randn(5, 2, 3, 3, dtype=torch.float64)
    explainer = Gradient(reduce="abs-sum")
    flip, comp, suff = by_loops(model, x, explainer, 0.0, [1, 2, 4])
    options = {"explainer": explainer, "fractions": (0.1, 0.2, 0.45)}
    torch.testing.assert_close(metrics.dffot(model, x, **options), flip)
    torch.testing.assert_close(metrics.comprehensiveness(model, x, **options), comp)
    torch.testing.assert_close(metrics.sufficiency(model, x, **options), suff)


def test_pairs_of_images_with_summed_channels():
    embed = nn.Sequential(nn.Flatten(start_dim=2), Siamese(8)).double()
    x = torch.randn(4, 2, 2, 2, 2, dtype=torch.float64)
    explainer = Gradient(inputs=2, reduce="abs-sum")
    flip, comp, _ = by_loops(embed, x, explainer, 0.0, range(1, 5))
    torch.testing.assert_close(metrics.dffot(embed, x, explainer=explainer), flip)
    torch.testing.assert_close(metrics.comprehensiveness(embed, x, explainer=explainer), comp)


def test_faithfulness_in_a_domain_removes_features_of_the_model_without_its_gauge():
    model, x = traps.network(), traps.table(8)
    free = without_gauge(model, traps.DOMAIN, traps.COLUMNS.n)
    found = metrics.faithfulness(model, x, domain=traps.DOMAIN)
    assert found == pytest.approx(metrics.faithfulness(free, x), abs=1e-12)
    assert found != pytest.approx(metrics.faithfulness(model, x), abs=1e-3)


@pytest.mark.parametrize("trap", traps.TRAPS)
def test_faithfulness_by_columns_evaluates_rows_that_exist_alone(trap):
    model, x, explainer = traps.network(), traps.table(8), ColumnEffects(columns=traps.COLUMNS)
    other = traps.TRAPS[trap](model)
    seen = []
    other.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    found = metrics.faithfulness(other, x, explainer=explainer)
    assert found == pytest.approx(metrics.faithfulness(model, x, explainer=explainer), abs=1e-10)
    for rows in seen:
        traps.COLUMNS.check_rows(rows)
    if trap == "sum":  # a row of zeros has no job
        zero = metrics.faithfulness(other, x, explainer=explainer, baseline=0.0)
        assert zero != pytest.approx(metrics.faithfulness(model, x, explainer=explainer, baseline=0.0), abs=1e-3)


def test_faithfulness_gives_the_means():
    model, x = net(), torch.randn(6, 5, dtype=torch.float64)
    found = metrics.faithfulness(model, x, baseline=0.1, fractions=(0.2, 0.6))
    for name in ("dffot", "comprehensiveness", "sufficiency"):
        expected = getattr(metrics, name)(model, x, baseline=0.1, fractions=(0.2, 0.6)).mean()
        assert found[name] == pytest.approx(expected.item())


def test_few_passes_when_rows_are_few():
    sizes = []
    model = net()
    model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    metrics.comprehensiveness(model, torch.randn(6, 5, dtype=torch.float64))
    assert len([size for size in sizes if size >= 6]) == 3  # predictions, explanation, and all k at once
    assert len(sizes) == 6  # and one look at the model on a few rows


def test_no_pass_is_larger_than_the_chunk():
    sizes = []
    model = net()
    model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    metrics.faithfulness(model, torch.randn(10, 5, dtype=torch.float64), chunk_size=4)
    assert max(sizes) == 4


def test_two_class_auc_is_that_of_scikit_learn():
    model, x = net(classes=2), torch.randn(40, 5, dtype=torch.float64)
    y = torch.randint(2, (40,), generator=torch.Generator().manual_seed(0))
    logits = model(x).detach()
    expected = roc_auc_score(y, logits[:, 1] - logits[:, 0])
    assert metrics.auc(model, x, y) == pytest.approx(expected)
    assert metrics.auc(model, x, y, chunk_size=7) == pytest.approx(expected)


def test_auc_does_not_round_sure_predictions_to_ties():
    model = linear([1.0]).float()
    x, y = torch.tensor([[-1.0], [40.0], [41.0]]), torch.tensor([0, 0, 1])
    assert model(x).softmax(1)[1, 1] == model(x).softmax(1)[2, 1] == 1
    assert metrics.auc(model, x, y) == 1.0


def test_auc_of_more_classes_is_one_against_the_rest():
    model, x = net(classes=4), torch.randn(60, 5, dtype=torch.float64)
    y = torch.arange(60) % 4
    probabilities = model(x).detach().softmax(1).numpy()
    assert metrics.auc(model, x, y) == pytest.approx(roc_auc_score(y, probabilities, multi_class="ovr"))
    # a class that does not occur has no curve
    y = torch.arange(60) % 3
    areas = [roc_auc_score(y == c, probabilities[:, c]) for c in range(3)]
    assert metrics.auc(model, x, y) == pytest.approx(sum(areas) / 3)


def test_adversarial_auc_is_taken_at_the_perturbed_inputs():
    model, x = net(classes=2), torch.randn(20, 5, dtype=torch.float64)
    y = model(x).argmax(1)
    assert metrics.auc(model, x, y) == 1.0
    result = replace(ERAttack(k=2, radius=0.1, steps=2)(model, x), x=x.flip(0))
    logits = model(x.flip(0)).detach()
    expected = roc_auc_score(y, logits[:, 1] - logits[:, 0])
    assert metrics.adversarial_auc(model, result, y) == pytest.approx(expected)
    assert expected < 1


def test_sensitivity_of_an_attack_that_lets_predictions_go():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x = torch.randn(40, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result = ERAttack(k=1, radius=4.0, steps=20, keep="last")(model, x)
    changed = model(result.x).argmax(1) != model(x).argmax(1)
    assert metrics.sensitivity(result) == pytest.approx(changed.double().mean().item())


def test_sensitivity_counts_changed_predictions():
    scores = torch.zeros(4, 3)
    assert metrics.sensitivity(result_of(scores, scores, torch.tensor([True, False, False, False]))) == 0.75


def test_displaced_counts_features():
    before = torch.tensor([[4.0, 3.0, 2.0, 1.0]] * 3)
    after = torch.tensor([[3.0, 4.0, 2.0, 1.0], [4.0, 1.0, 3.0, 2.0], [1.0, 2.0, 3.0, 4.0]])
    result = result_of(before, after, torch.ones(3, dtype=torch.bool))
    assert metrics.displaced(result, k=2).tolist() == [0.0, 1.0, 2.0]
    pairs = result_of(before[:2].reshape(1, 2, 4), after[1:].reshape(1, 2, 4), torch.ones(1, dtype=torch.bool))
    assert metrics.displaced(pairs, k=2).tolist() == [1.5]
    with pytest.raises(InputError, match=r"less than the 4 features.*k=4"):
        metrics.displaced(result, k=4)


X = torch.ones(2, 3)
Y = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("x", "y", "match"),
    [
        (X, torch.tensor([1, 1]), "all 2 labels are 1"),
        (X, torch.tensor([0, 2]), "label 2 in row 1 is out of range"),
        (X, torch.tensor([0, 1, 1]), "3 labels for 2 rows"),
        (X, torch.tensor([0.0, 1.0]), "1-d int64 tensor"),
        (X.long(), Y, r"use x.float\(\)"),
        (X * math.nan, Y, "NaN or infinite"),
    ],
)
def test_auc_refuses(x, y, match):
    with pytest.raises(InputError, match=match):
        metrics.auc(nn.Linear(3, 2), x, y)


class Tuple(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


@pytest.mark.parametrize("function", [metrics.dffot, metrics.comprehensiveness, metrics.sufficiency])
@pytest.mark.parametrize(
    ("model", "x", "options", "match"),
    [
        (nn.Linear(3, 2), X, {"fractions": (0.1, 1.5)}, r"got \(0.1, 1.5\)"),
        (nn.Linear(3, 2), X, {"fractions": ()}, "fractions must be"),
        (nn.Linear(3, 2), X, {"baseline": math.inf}, "baseline must be finite"),
        (nn.Linear(3, 2), X, {"baseline": torch.zeros(4)}, r"shape \(4,\) does not fit inputs of shape \(3,\)"),
        (nn.Linear(3, 2), X, {"chunk_size": 0}, "chunk_size=0"),
        (nn.Linear(3, 2), X, {"explainer": Gradient(inputs=2)}, "inputs=2 needs pairs"),
        (nn.Sequential(nn.Linear(3, 2)), X, {"explainer": Activation(layer="0")}, "neurons of a layer"),
        (nn.Linear(3, 2), X * math.inf, {}, "NaN or infinite"),
        (Tuple(), X, {}, "must return a tensor of logits"),
        (nn.Sequential(nn.Linear(3, 2), nn.Softmax(1)), X, {}, "remove the final softmax"),
    ],
)
def test_faithfulness_refuses(function, model, x, options, match):
    with pytest.raises(InputError, match=match):
        function(model, x, **options)


def test_a_model_with_one_output_is_a_model_error():
    with pytest.raises(ModelError, match=r"one output.*r2et\.metrics\.r2.*torch\.cat"):
        metrics.auc(nn.Linear(3, 1), X, Y)
