import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import r2et
from r2et import fit, models
from r2et.errors import InputError, ModelError
from r2et.objectives import R2ET, CrossEntropy
from r2et.training import Settings
from tests.training.toy import distance, dropout_net, net, problem, remembering, same, weights, without_seconds

TRAIN, VALIDATION = problem()


def test_learns_a_separable_problem():
    train, validation = problem(rows=300, validation=200)
    before = net()
    result = fit(before, train, validation, settings=Settings(epochs=60, lr=0.05, batch_size=64))
    assert result.auc > 0.99
    assert r2et.metrics.auc(result.model, *validation) == result.auc
    assert (result.model(validation[0]).argmax(1) == validation[1]).float().mean() > 0.95
    assert result.model is before, "the model is trained in place"
    assert not result.model.training


def test_rows_may_be_objects():
    train, validation = (SimpleNamespace(x=x, y=y) for x, y in (TRAIN, VALIDATION))
    a = fit(net(), train, validation, settings=Settings(epochs=2))
    b = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2))
    assert same(weights(a.model), weights(b.model))


@pytest.mark.parametrize(
    ("make", "objective"),
    [(net, CrossEntropy()), (dropout_net, CrossEntropy()), (net, R2ET(k=2, scale_free=True))],
    ids=["plain", "dropout", "random directions"],
)
def test_a_seed_decides_the_run(make, objective):
    def run(seed: int) -> r2et.training.FitResult:
        torch.manual_seed(torch.initial_seed() % 1000 + 1)  # the global state must not matter
        torch.rand(3)
        return fit(make(), TRAIN, VALIDATION, objective, settings=Settings(epochs=4, batch_size=20, seed=seed))

    first, again, other = run(3), run(3), run(4)
    assert same(weights(first.model), weights(again.model))
    assert without_seconds(first) == without_seconds(again)
    assert not same(weights(first.model), weights(other.model))


def test_the_data_and_the_global_random_state_are_left_alone():
    train, validation = problem()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    fit(dropout_net(), train, validation, R2ET(k=2, scale_free=True), settings=Settings(epochs=2))
    assert torch.equal(torch.get_rng_state(), state)
    for part, kept in ((train, TRAIN), (validation, VALIDATION)):
        assert torch.equal(part[0], kept[0])
        assert torch.equal(part[1], kept[1])


def test_history_has_a_row_an_epoch():
    result = fit(net(), TRAIN, VALIDATION, R2ET(k=2), settings=Settings(epochs=3, batch_size=25))
    parts = ["cross-entropy", "gap", "curvature"]
    columns = ["epoch", "loss", *parts, *(f"validation {name}" for name in ["loss", *parts, "auc"]), "seconds"]
    assert sorted(result.history.columns) == sorted(columns)
    assert result.history["epoch"].tolist() == [1, 2, 3]
    assert result.history.notna().all(axis=None)
    assert result.stopped == "epochs"
    assert result.selected_epoch in (1, 2, 3)
    assert result.auc == result.history["validation auc"][result.selected_epoch - 1]


def test_history_holds_the_losses_of_the_model_at_that_epoch():
    train, validation = problem(dtype=torch.float64)
    objective = R2ET(k=2, gap=0.5, curvature=0.25)
    trainer, seen = remembering()
    start = net(dtype=torch.float64)
    first = copy.deepcopy(start)
    result = fit(start, train, validation, objective, settings=Settings(epochs=3, batch_size=60), trainer=trainer)
    models_at = [first]
    for state in seen:
        models_at.append(copy.deepcopy(first))
        models_at[-1].load_state_dict(state)
    for epoch, record in enumerate(result.records):
        # one batch an epoch: its loss is that of the weights before the step
        assert record["loss"] == pytest.approx(objective(models_at[epoch], *train).item(), abs=1e-12)
        after = objective.evaluate(models_at[epoch + 1], *validation)
        assert record["validation loss"] == pytest.approx(after.total.item(), abs=1e-12)
        assert record["validation gap"] == pytest.approx(float(after.parts["gap"]), abs=1e-12)
        assert record["validation auc"] == r2et.metrics.auc(models_at[epoch + 1], *validation)


def test_a_full_batch_step_is_the_step_by_hand():
    train, validation = problem(dtype=torch.float64)
    start = net(dtype=torch.float64)
    by_hand = copy.deepcopy(start)
    F.cross_entropy(by_hand(train[0]), train[1]).backward()
    expected = {name: p.detach() - 0.3 * p.grad for name, p in by_hand.named_parameters()}
    result = fit(
        start,
        train,
        validation,
        settings=Settings(epochs=1, batch_size=60, optimiser=lambda p: torch.optim.SGD(p, lr=0.3)),
    )
    assert distance(weights(result.model), expected) < 1e-14


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_lr_and_weight_decay_are_those_of_adam(decay):
    train, validation = problem(dtype=torch.float64)
    start = net(dtype=torch.float64)
    by_hand = copy.deepcopy(start)
    adam = torch.optim.Adam(by_hand.parameters(), lr=0.02, weight_decay=decay)
    for _ in range(4):
        adam.zero_grad()
        F.cross_entropy(by_hand(train[0]), train[1]).backward()
        adam.step()
    trainer, seen = remembering()
    fit(
        start,
        train,
        validation,
        settings=Settings(epochs=4, lr=0.02, weight_decay=decay, batch_size=60),
        trainer=trainer,
    )
    assert distance(seen[-1], weights(by_hand)) < 1e-10


def test_weight_decay_shrinks_weights():
    norms = [
        float(
            sum(
                p.square().sum()
                for p in fit(
                    net(), TRAIN, VALIDATION, settings=Settings(epochs=40, weight_decay=d)
                ).model.parameters()
            )
        )
        for d in (0.0, 0.5)
    ]
    assert norms[1] < 0.5 * norms[0]


def test_a_schedule_is_stepped_once_an_epoch():
    trainer, seen = remembering()
    fit(
        net(),
        TRAIN,
        VALIDATION,
        settings=Settings(
            epochs=4,
            batch_size=7,
            schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: float(epoch < 2)),
        ),
        trainer=trainer,
    )
    assert not same(seen[0], seen[1])
    assert same(seen[1], seen[2])
    assert same(seen[2], seen[3])


def noisy_run(**options) -> tuple[r2et.training.FitResult, list[dict[str, torch.Tensor]]]:
    """A run whose validation loss and AUC go up and down."""
    train, validation = problem(rows=40, noise=1.0, seed=2)
    trainer, seen = remembering()
    settings = Settings(**{"epochs": 25, "lr": 0.1, "batch_size": 10, "patience": None, **options})
    return fit(net(), train, validation, settings=settings, trainer=trainer), seen


def test_without_a_threshold_the_lowest_validation_loss_wins():
    result, seen = noisy_run()
    best = int(result.history["validation loss"].argmin())
    assert 0 < best < 24, "neither the first nor the last epoch, so that the test can fail"
    assert result.selected_epoch == best + 1
    assert same(weights(result.model), seen[best])
    assert result.auc == result.history["validation auc"][best]
    assert result.passed


def test_with_a_threshold_the_last_epoch_that_passes_wins():
    aucs = noisy_run()[0].history["validation auc"]
    threshold = float(aucs[aucs.index != len(aucs) - 1].quantile(0.8))
    passing = [epoch for epoch, auc in enumerate(aucs) if auc >= threshold]
    assert len(passing) > 1
    assert passing[-1] not in (0, len(aucs) - 1, int(aucs.argmax())), "not by luck"
    result, seen = noisy_run(threshold=threshold)
    assert result.selected_epoch == passing[-1] + 1
    assert same(weights(result.model), seen[passing[-1]])
    assert result.passed
    assert result.auc >= threshold


def test_if_no_epoch_passes_the_best_auc_wins():
    result, seen = noisy_run(threshold=1.1)
    best = int(result.history["validation auc"].argmax())
    assert best != int(result.history["validation loss"].argmin())
    assert result.selected_epoch == best + 1
    assert same(weights(result.model), seen[best])
    assert not result.passed
    assert result.auc == result.history["validation auc"].max()


def test_an_auc_equal_to_the_threshold_passes():
    highest = float(noisy_run()[0].history["validation auc"].max())
    result, _ = noisy_run(threshold=highest)
    assert result.passed
    assert result.auc == highest


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_stops_after_so_many_epochs_without_a_lower_loss(patience):
    losses = noisy_run()[0].history["validation loss"].tolist()
    best = 0
    for epoch, loss in enumerate(losses):
        best = epoch if loss < losses[best] else best
        if epoch - best >= patience:
            break
    assert epoch < 24
    result, _ = noisy_run(patience=patience)
    assert len(result.records) == epoch + 1
    assert result.stopped == "patience"
    assert result.selected_epoch == best + 1


def test_a_run_that_diverges_keeps_its_last_good_epoch():
    trainer, seen = remembering()
    result = fit(
        net(),
        TRAIN,
        VALIDATION,
        settings=Settings(
            epochs=10,
            optimiser=lambda p: torch.optim.SGD(p, lr=0.1),
            schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 1.0 if epoch < 3 else 1e38),
            batch_size=20,
        ),
        trainer=trainer,
    )
    assert result.stopped == "diverged"
    assert len(result.records) == 4
    assert result.selected_epoch == 3
    assert same(weights(result.model), seen[2])


@pytest.mark.parametrize("objective", [CrossEntropy(), R2ET(k=2)], ids=["plain", "r2et"])
def test_a_run_that_diverges_at_once_says_what_to_do(tmp_path, objective):
    with pytest.raises(InputError, match="lower the learning rate"):
        fit(
            net(),
            TRAIN,
            VALIDATION,
            objective,
            settings=Settings(lr=9e17, optimiser=lambda p: torch.optim.SGD(p, lr=1e38), batch_size=20),
            checkpoint=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


def test_batch_norm_sees_every_training_batch_and_nothing_else():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Softplus(), nn.Linear(4, 2))
    fit(model, TRAIN, VALIDATION, settings=Settings(epochs=1, batch_size=20))
    assert int(model[1].num_batches_tracked) == 3


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16])
def test_labels_of_another_integer_type_train_alike_or_are_refused(dtype):
    a = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1))
    try:
        b = fit(
            net(),
            (TRAIN[0], TRAIN[1].to(dtype)),
            (VALIDATION[0], VALIDATION[1].to(dtype)),
            settings=Settings(epochs=1),
        )
    except InputError:
        return
    assert same(weights(a.model), weights(b.model))


# --- bad input ------------------------------------------------------------------------------------------------


def changed(part, x=None, y=None):
    new_x, new_y = part[0].clone(), part[1].clone()
    if x is not None:
        new_x[3, 1] = x
    if y is not None:
        new_y[4] = y
    return new_x, new_y


x, y = TRAIN
NOT_ROWS = {
    "label too high": (changed(TRAIN, y=2), "label 2 in row 4"),
    "negative label": (changed(TRAIN, y=-1), "label -1 in row 4"),
    "nan": (changed(TRAIN, x=float("nan")), r"nan at \w+\.x\[3, 1\]"),
    "infinite": (changed(TRAIN, x=float("inf")), r"inf at \w+\.x\[3, 1\]"),
    "integer x": ((x.long(), y), "torch.int64"),
    "float labels": ((x, y.float()), "torch.float32"),
    "2-d labels": ((x, y[:, None]), r"\(60, 1\)"),
    "too few labels": ((x, y[:7]), "7 labels for 60 rows"),
    "one sample": ((x[0], y[:1]), r"\(5,\)"),
    "no rows": ((x[:0], y[:0]), "empty"),
    "no features": ((x[:, :0], y), "empty"),
    "numpy": ((x.numpy(), y), "ndarray"),
}


@pytest.mark.parametrize("where", ["train", "validation"])
@pytest.mark.parametrize("name", NOT_ROWS)
def test_bad_rows(tmp_path, where, name):
    part, message = NOT_ROWS[name]
    parts = {"train": TRAIN, "validation": VALIDATION, where: part}
    model = net()
    before = weights(model)
    with pytest.raises(InputError, match=message):
        fit(model, parts["train"], parts["validation"], settings=Settings(epochs=1), checkpoint=tmp_path / "run")
    assert same(weights(model), before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("epochs", -3),
        ("epochs", 1.5),
        ("lr", -1.0),
        ("lr", 0.0),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("patience", 0),
        ("weight_decay", -0.1),
        ("weight_decay", float("nan")),
    ],
)
def test_bad_settings(name, value):
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        Settings(**{"epochs": 1, name: value})


def test_settings_are_an_object():
    with pytest.raises(InputError, match=r"settings=.*epochs"):
        fit(net(), TRAIN, VALIDATION, settings={"epochs": 1})


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


class Tuple(nn.Linear):
    def forward(self, x):
        return super().forward(x), None


BAD_MODELS = {
    "probabilities": (nn.Sequential(net(), nn.Softmax(dim=1)), "remove the final softmax"),
    "one logit": (nn.Linear(5, 1), "one output.*torch.cat"),
    "wrong shape": (nn.Sequential(net(), nn.Flatten(0)), r"got \(4,\)"),
    "tuple": (Tuple(5, 2), "tuple"),
    "no gradients": (Detached(5, 2), "gradient"),
    "all frozen": (net().requires_grad_(False), "gradient|parameter|frozen"),
    "no parameters": (nn.Sequential(nn.Identity()), "parameter"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_models(tmp_path, name):
    model, message = BAD_MODELS[name]
    with pytest.raises(ModelError, match=message):
        fit(model, TRAIN, VALIDATION, settings=Settings(epochs=1), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_model_for_other_features(tmp_path):
    with pytest.raises(InputError, match=r"shape \(2, 5\).*4x2"):
        fit(models.Linear(4, 2), TRAIN, VALIDATION, settings=Settings(epochs=1), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_k_as_large_as_the_number_of_features(tmp_path):
    with pytest.raises(InputError, match="k=5"):
        fit(net(), TRAIN, VALIDATION, R2ET(k=5), settings=Settings(epochs=1), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_validation_labels_of_one_class(tmp_path):
    part = (VALIDATION[0], torch.zeros_like(VALIDATION[1]))
    with pytest.raises(InputError, match="two classes"):
        fit(net(), TRAIN, part, settings=Settings(epochs=1), checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_resume_needs_a_folder():
    with pytest.raises(InputError, match="resume=True needs checkpoint="):
        fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), resume=True)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(r2et.errors.CheckpointError, match="cannot write"):
        fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), checkpoint=tmp_path / "file")
    assert (tmp_path / "file").read_text() == "in the way"
