import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import r2et
from r2et import fit
from r2et.data import DrawnPairs
from r2et.data.pairs import Pool
from r2et.errors import CheckpointError
from r2et.objectives import R2ET, CertifiedRadius, CrossEntropy
from r2et.training import Batch, Retraining, Settings, Trainer
from tests.training.toy import (
    distance,
    dropout_net,
    interrupted_at,
    net,
    problem,
    remembering,
    same,
    weights,
    without_seconds,
)

TRAIN, VALIDATION = problem()
STEPS = 3  # an epoch, at batches of 20
ROOT = Path(__file__).parents[2]

# --- steps that a subclass replaces ---------------------------------------------------------------------------


def test_an_epoch_visits_every_row_once_in_an_order_of_its_own():
    seen: list[list[list[float]]] = []

    class Watching(Trainer):
        def train_epoch(self, epoch: int) -> dict[str, float]:
            parts = list(self.batches(epoch))
            assert [len(batch.x) for batch in parts] == [25, 25, 10]
            assert [(batch.share, batch.row_weights) for batch in parts] == [(1.0, None)] * 3
            for batch in parts:
                rows = (batch.x[:, None] == TRAIN[0][None]).all(2).int().argmax(1)
                assert torch.equal(TRAIN[1][rows], batch.y), "labels stay with their rows"
            seen.append(torch.cat([batch.x for batch in parts]).tolist())
            return super().train_epoch(epoch)

    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2, batch_size=25), trainer=Watching)
    assert [sorted(order) for order in seen] == [sorted(TRAIN[0].tolist())] * 2
    assert seen[0] != seen[1]
    assert seen[0] != TRAIN[0].tolist()


def test_a_replaced_train_step_is_used():
    class Frozen(Trainer):
        def train_step(self, batch: Batch, generator: torch.Generator, step: int):
            return self.objective.evaluate(self.model, batch.x, batch.y, generator=generator, step=step)

    result = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2), trainer=Frozen)
    assert same(weights(result.model), weights(net()))
    assert len(result.records) == 2


def test_replaced_selection_and_stopping_are_used():
    class Own(Trainer):
        def select(self, record: dict[str, float]) -> bool:
            return record["epoch"] <= 2

        def reason_to_stop(self, record: dict[str, float]) -> str:
            return "enough" if record["epoch"] == 4 else ""

    result = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=50), trainer=Own)
    assert (result.selected_epoch, len(result.records), result.stopped) == (2, 4, "enough")


def test_replaced_optimiser_and_batches_are_used():
    class Own(Trainer):
        def make_optimiser(self, parameters):
            return torch.optim.SGD(parameters, lr=0.0)

        def batches(self, epoch: int):
            yield Batch(self.train.x[:5], self.train.y[:5])

    result = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), trainer=Own)
    assert same(weights(result.model), weights(net()))
    expected = CrossEntropy()(net(), TRAIN[0][:5], TRAIN[1][:5]).item()
    assert result.records[0]["loss"] == pytest.approx(expected, abs=1e-6)


def test_steps_are_numbered_through_all_epochs():
    numbers = []

    class Watching(Trainer):
        def train_step(self, batch, generator, step):
            numbers.append(step)
            return super().train_step(batch, generator, step)

    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=3, batch_size=20), trainer=Watching)
    assert numbers == list(range(3 * STEPS))


# --- retraining (App. B.2.5) ----------------------------------------------------------------------------------


def vanilla(seed: int = 0) -> nn.Module:
    return fit(net(seed), TRAIN, VALIDATION, settings=Settings(epochs=15, lr=0.05)).model


def start(reference: nn.Module) -> nn.Module:
    model = net()
    model.load_state_dict(reference.state_dict())
    return model


def test_retraining_keeps_the_reference_and_hands_it_to_the_objective():
    reference = vanilla().train()
    reference.zero_grad()
    before = weights(reference)
    seen: list[Trainer] = []

    class Watching(Trainer):
        def train_epoch(self, epoch: int) -> dict[str, float]:
            seen.append(self)
            return super().train_epoch(epoch)

    objective = R2ET(k=2, gap=0.1, curvature=0.01)
    retraining = Retraining(reference, k=2, min_precision=0.0, max_auc_drop=1.0)
    result = fit(
        start(reference),
        TRAIN,
        VALIDATION,
        objective,
        settings=Settings(epochs=3),
        retraining=retraining,
        trainer=Watching,
    )
    used = seen[0].objective.reference
    assert used is not reference, "a copy"
    assert same(weights(used), before)
    assert not any(p.requires_grad for p in used.parameters())
    assert not used.training
    assert same(weights(reference), before)
    assert all(p.requires_grad and p.grad is None for p in reference.parameters())
    assert reference.training, "the caller's own model keeps its flag"
    assert objective.reference is None
    assert not same(weights(result.model), before)
    assert "ranking kept" in result.history
    assert result.stopped == "epochs"


def test_retraining_the_reference_itself_compares_with_what_it_was():
    model = vanilla()
    before = start(model)
    retraining = Retraining(model, k=2, min_precision=0.0, max_auc_drop=1.0)
    trainer, seen = remembering()
    result = fit(
        model, TRAIN, VALIDATION, settings=Settings(epochs=3, lr=0.3), retraining=retraining, trainer=trainer
    )
    for record, state in zip(result.records, seen, strict=True):
        after = net()
        after.load_state_dict(state)
        target = before(VALIDATION[0]).argmax(1)
        ranked = [
            r2et.explainers.Gradient()(m, VALIDATION[0], target).topk(2).indices.tolist() for m in (before, after)
        ]
        kept = [len({*a} & {*b}) / 2 for a, b in zip(*ranked, strict=True)]
        assert record["ranking kept"] == pytest.approx(sum(kept) / len(kept))
    assert min(record["ranking kept"] for record in result.records) < 1


class Wandering(CrossEntropy):
    """Pulls the weights to where they are not: the gradient of another task."""

    def evaluate(self, model, x, y, *, generator=None, step=None):
        return super().evaluate(model, x.flip(1), y, generator=generator, step=step)


def test_retraining_stops_when_the_ranking_drops():
    reference = vanilla()
    retraining = Retraining(reference, k=2, min_precision=0.95, max_auc_drop=1.0)
    trainer, seen = remembering()
    result = fit(
        start(reference),
        TRAIN,
        VALIDATION,
        Wandering(),
        settings=Settings(epochs=40, lr=0.01, threshold=0.0),
        retraining=retraining,
        trainer=trainer,
    )
    kept = result.history["ranking kept"]
    assert result.stopped == "ranking"
    assert 2 < len(kept) < 40
    assert (kept[:-1] >= 0.95).all()
    assert kept.iloc[-1] < 0.95
    assert result.selected_epoch == len(kept) - 1, "the last acceptable epoch"
    assert same(weights(result.model), seen[-2])


def test_retraining_stops_when_the_auc_drops():
    reference = vanilla()
    retraining = Retraining(reference, k=2, min_precision=0.0, max_auc_drop=0.05)
    trainer, seen = remembering()
    result = fit(
        start(reference),
        TRAIN,
        VALIDATION,
        Wandering(),
        settings=Settings(epochs=60, lr=0.01, threshold=0.0),
        retraining=retraining,
        trainer=trainer,
    )
    allowed = r2et.metrics.auc(reference, *VALIDATION) - 0.05
    aucs = result.history["validation auc"]
    assert result.stopped == "auc"
    assert (aucs[:-1] >= allowed).all()
    assert aucs.iloc[-1] < allowed
    assert result.selected_epoch == len(aucs) - 1
    assert same(weights(result.model), seen[-2])
    assert result.auc >= allowed


@pytest.mark.parametrize("threshold", [None, 0.5])
def test_if_the_first_epoch_breaks_the_ranking_the_model_that_came_in_is_the_answer(threshold):
    reference = vanilla()
    result = fit(
        start(reference),
        TRAIN,
        VALIDATION,
        settings=Settings(epochs=9, lr=5.0, threshold=threshold),
        retraining=Retraining(reference, k=2, min_precision=1.0, max_auc_drop=0.0),
    )
    assert result.stopped in ("ranking", "auc")
    assert len(result.records) == 1
    assert same(weights(result.model), weights(reference))
    assert result.selected_epoch == 0
    assert result.auc == r2et.metrics.auc(reference, *VALIDATION)
    assert result.passed, "there is no threshold, or this model passes it"


def test_the_auc_is_that_of_the_model_that_is_returned():
    reference = vanilla()
    came_in = net(seed=3)
    result = fit(
        came_in,
        TRAIN,
        VALIDATION,
        settings=Settings(epochs=2, lr=5.0),
        retraining=Retraining(reference, k=2, min_precision=1.0, max_auc_drop=0.0),
    )
    assert result.selected_epoch == 0
    assert same(weights(result.model), weights(net(seed=3)))
    assert result.auc == r2et.metrics.auc(result.model, *VALIDATION)


def test_the_certified_radius_gets_its_reference_too():
    reference = vanilla()
    retraining = Retraining(reference, k=2, min_precision=0.0, max_auc_drop=1.0)
    objective = CertifiedRadius(k=2, weight=0.01, denominator="point")
    with_it = fit(
        start(reference), TRAIN, VALIDATION, objective, settings=Settings(epochs=4, lr=0.1), retraining=retraining
    )
    without = fit(start(reference), TRAIN, VALIDATION, objective, settings=Settings(epochs=4, lr=0.1))
    assert with_it.history["radius"][0] == pytest.approx(without.history["radius"][0], abs=1e-6)
    assert with_it.history["radius"].iloc[-1] != without.history["radius"].iloc[-1]


def test_k_of_retraining_is_checked_before_anything_is_trained(tmp_path):
    model = net()
    with pytest.raises(r2et.errors.InputError, match="k=8"):
        fit(
            model,
            TRAIN,
            VALIDATION,
            settings=Settings(epochs=1),
            retraining=Retraining(net()),
            checkpoint=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()
    assert same(weights(model), weights(net()))


# --- resuming -------------------------------------------------------------------------------------------------

CASES = {
    "plain": (net, None, {}),
    "step schedule": (net, None, {"schedule": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.3)}),
    "milestones": (net, None, {"schedule": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [2, 4, 6], 0.3)}),
    "lambda": (net, None, {"schedule": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.8**e)}),
    "cosine": (net, None, {"schedule": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 7)}),
    "warm-up": (
        net,
        None,
        {
            "schedule": lambda o: torch.optim.lr_scheduler.SequentialLR(
                o,
                [
                    torch.optim.lr_scheduler.LinearLR(o, total_iters=3),
                    torch.optim.lr_scheduler.ExponentialLR(o, 0.7),
                ],
                milestones=[4],
            )
        },
    ),
    "momentum": (net, None, {"optimiser": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)}),
    "random directions": (net, R2ET(k=2, scale_free=True), {}),
    "every fourth step": (net, R2ET(k=2, every=4), {"batch_size": 13}),
    "dropout": (dropout_net, None, {}),
    "threshold": (net, None, {"threshold": 0.9}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stop", [3 * STEPS, 3 * STEPS + 1], ids=["between epochs", "in an epoch"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, name, stop):
    make, objective, options = CASES[name]
    settings = Settings(**{"epochs": 7, "batch_size": 20, "seed": 3, **options})
    run = {"objective": objective, "settings": settings}
    straight = fit(make(), TRAIN, VALIDATION, **run)
    with pytest.raises(KeyboardInterrupt):
        fit(make(), TRAIN, VALIDATION, checkpoint=tmp_path, trainer=interrupted_at(stop), **run)
    resumed = fit(make(seed=9), TRAIN, VALIDATION, checkpoint=tmp_path, resume=True, **run)
    assert same(weights(resumed.model), weights(straight.model))
    assert without_seconds(resumed) == without_seconds(straight)
    assert (resumed.selected_epoch, resumed.auc, resumed.passed, resumed.stopped) == (
        straight.selected_epoch,
        straight.auc,
        straight.passed,
        straight.stopped,
    )


POOL = Pool(TRAIN[0], TRAIN[1], torch.arange(len(TRAIN[0])))
PAIRS = DrawnPairs.from_pool(POOL, count=50, seed=1)


def pair_net(seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return r2et.models.Siamese(r2et.models.MLP(5, 4, hidden=(8,), activation="softplus"))


def test_drawn_rows_depend_on_seed_and_epoch_alone():
    seen: dict[tuple[int, int], Tensor] = {}

    def watching(seed: int) -> type[Trainer]:
        class Watching(Trainer):
            def train_epoch(self, epoch: int) -> dict[str, float]:
                parts = list(self.batches(epoch))
                assert [len(batch.y) for batch in parts] == [20, 20, 10]
                seen[seed, epoch] = torch.cat([batch.x for batch in parts])
                again = torch.cat([batch.x for batch in self.batches(epoch)])
                assert torch.equal(again, seen[seed, epoch])
                return super().train_epoch(epoch)

        return Watching

    for seed in (3, 4):
        fit(
            pair_net(), PAIRS, PAIRS, settings=Settings(epochs=2, batch_size=20, seed=seed), trainer=watching(seed)
        )

    def as_set(x: Tensor) -> set[bytes]:
        return {row.numpy().tobytes() for row in x}

    drawn = [as_set(x) for x in seen.values()]
    assert all(len(a & b) < 25 for number, a in enumerate(drawn) for b in drawn[:number])
    assert all(len(a & as_set(PAIRS.x)) < 25 for a in drawn), "the first draw is not used up again and again"


def test_a_killed_run_on_drawn_pairs_is_resumed_bit_for_bit(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal
        from r2et import fit
        from r2et.training import Settings, Trainer
        from tests.training.test_trainer import PAIRS, pair_net

        class Killed(Trainer):
            def train_step(self, batch, generator, step):
                if step == 7:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().train_step(batch, generator, step)

        settings = Settings(epochs=4, batch_size=20, seed=3)
        fit(pair_net(), PAIRS, PAIRS, settings=settings, checkpoint="run", trainer=Killed)
        """
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    settings = Settings(epochs=4, batch_size=20, seed=3)
    straight = fit(pair_net(), PAIRS, PAIRS, settings=settings)
    resumed = fit(pair_net(seed=9), PAIRS, PAIRS, settings=settings, checkpoint=tmp_path / "run", resume=True)
    assert len(json.loads((tmp_path / "run" / "training.json").read_text())["progress"]["records"]) == 4
    assert same(weights(resumed.model), weights(straight.model))
    assert without_seconds(resumed) == without_seconds(straight)


def test_the_training_data_are_hashed_once(tmp_path, monkeypatch):
    calls = []
    fingerprint = r2et.checkpoints.models.fingerprint
    monkeypatch.setattr(
        r2et.checkpoints.models, "fingerprint", lambda *tensors: calls.append(1) or fingerprint(*tensors)
    )
    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=3), checkpoint=tmp_path)
    assert len(calls) == 1


def test_validation_in_parts_gives_the_figures_of_the_whole(monkeypatch):
    whole = fit(net(), TRAIN, VALIDATION, R2ET(k=2), settings=Settings(epochs=1))
    retraining = Retraining(net(seed=1), k=2, min_precision=0.0, max_auc_drop=1.0)
    kept = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), retraining=retraining)
    monkeypatch.setattr(r2et.numerics.memory, "VALUES", r2et.training.trainer.GRAPHS * 5 * 7)
    parts = fit(net(), TRAIN, VALIDATION, R2ET(k=2), settings=Settings(epochs=1))
    for name, value in without_seconds(whole)[0].items():
        assert parts.records[0][name] == pytest.approx(value, abs=1e-6)
    again = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), retraining=retraining)
    assert again.records[0]["ranking kept"] == pytest.approx(kept.records[0]["ranking kept"])


def test_a_finished_run_can_be_extended(tmp_path):
    straight = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=6, batch_size=20))
    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=3, batch_size=20), checkpoint=tmp_path)
    resumed = fit(
        net(), TRAIN, VALIDATION, settings=Settings(epochs=6, batch_size=20), checkpoint=tmp_path, resume=True
    )
    assert same(weights(resumed.model), weights(straight.model))
    assert without_seconds(resumed) == without_seconds(straight)


def test_resuming_a_finished_run_gives_its_result(tmp_path):
    first = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=3), checkpoint=tmp_path)
    again = fit(net(seed=5), TRAIN, VALIDATION, settings=Settings(epochs=3), checkpoint=tmp_path, resume=True)
    assert same(weights(again.model), weights(first.model))
    assert again.records == first.records
    assert again.stopped == "epochs"


def test_more_patience_continues_a_run_that_ran_out_of_it(tmp_path):
    train, validation = problem(rows=40, noise=1.0, seed=2)
    patient = Settings(lr=0.1, batch_size=10, epochs=25, patience=8)
    straight = fit(net(), train, validation, settings=patient)
    short = fit(net(), train, validation, settings=replace(patient, patience=2), checkpoint=tmp_path)
    assert short.stopped == "patience"
    assert len(short.records) < len(straight.records)
    longer = fit(net(), train, validation, settings=patient, checkpoint=tmp_path, resume=True)
    assert without_seconds(longer) == without_seconds(straight)
    assert same(weights(longer.model), weights(straight.model))


def test_fewer_epochs_than_were_trained_train_no_more(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fit(
            net(),
            TRAIN,
            VALIDATION,
            settings=Settings(epochs=9, batch_size=20),
            checkpoint=tmp_path,
            trainer=interrupted_at(5 * STEPS),
        )
    result = fit(
        net(), TRAIN, VALIDATION, settings=Settings(epochs=4, batch_size=20), checkpoint=tmp_path, resume=True
    )
    assert len(result.records) == 5
    assert result.stopped == "epochs"


def test_resume_without_a_run_in_the_folder_starts_one(tmp_path):
    straight = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2))
    started = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2), checkpoint=tmp_path / "new", resume=True)
    assert same(weights(started.model), weights(straight.model))


def test_without_resume_a_run_starts_again(tmp_path):
    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=3, seed=1), checkpoint=tmp_path)
    result = fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2, seed=2), checkpoint=tmp_path)
    assert len(result.records) == 2
    assert len(list(tmp_path.glob("*.safetensors"))) == 1


def test_tied_weights_can_be_saved_and_resumed(tmp_path):
    class Tied(nn.Module):
        def __init__(self, seed: int = 0) -> None:
            super().__init__()
            self.first, self.second, self.head = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 2)
            source = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in self.parameters():
                    p.copy_(torch.randn(p.shape, generator=source) * 0.5)
            self.second.weight = self.first.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))

    straight = fit(Tied(), TRAIN, VALIDATION, settings=Settings(epochs=4))
    fit(Tied(), TRAIN, VALIDATION, settings=Settings(epochs=2), checkpoint=tmp_path)
    resumed = fit(Tied(seed=1), TRAIN, VALIDATION, settings=Settings(epochs=4), checkpoint=tmp_path, resume=True)
    assert same(weights(resumed.model), weights(straight.model))


REFERENCES = {0: net(0), 1: net(1)}
OTHER_TRAIN = (TRAIN[0] + 1e-6, TRAIN[1])
DIFFERENT = {
    "lr": ({}, {"lr": 0.02}, "settings"),
    "batch size": ({}, {"batch_size": 30}, "settings"),
    "seed": ({}, {"seed": 1}, "settings"),
    "weight decay": ({}, {"weight_decay": 0.1}, "settings"),
    "threshold": ({}, {"threshold": 0.5}, "settings"),
    "objective": ({}, {"objective": R2ET(k=2)}, "objective"),
    "objective's weight": ({"objective": R2ET(k=2)}, {"objective": R2ET(k=2, gap=2.0)}, "objective"),
    "train": ({}, {"train": OTHER_TRAIN}, "data"),
    "validation": ({}, {"validation": (VALIDATION[0][:-1], VALIDATION[1][:-1])}, "data"),
    "width": ({}, {"model": lambda: r2et.models.MLP(5, 2, hidden=(9,), activation="softplus")}, "model|size"),
    "activation": ({}, {"model": lambda: net(activation="tanh")}, "model|activation"),
    "optimiser": ({}, {"optimiser": lambda p: torch.optim.SGD(p, lr=0.1)}, "optimiser|Adam"),
    "schedule": ({}, {"schedule": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)}, "schedule"),
    "no schedule": ({"schedule": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)}, {"schedule": None}, "schedule"),
    "reference": (
        {"retraining": Retraining(REFERENCES[0], k=2, min_precision=0.0, max_auc_drop=1.0)},
        {"retraining": Retraining(REFERENCES[1], k=2, min_precision=0.0, max_auc_drop=1.0)},
        "retraining|reference",
    ),
    "retraining": (
        {"retraining": Retraining(REFERENCES[0], k=2, min_precision=0.0, max_auc_drop=1.0)},
        {"retraining": Retraining(REFERENCES[0], k=3, min_precision=0.0, max_auc_drop=1.0)},
        "retraining",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_run_is_not_resumed_under_other_conditions(tmp_path, name):
    first, second, message = DIFFERENT[name]

    def run(options: dict, resume: bool) -> r2et.training.FitResult:
        parts = {"model": net, "train": TRAIN, "validation": VALIDATION, **options}
        settings = {name: parts.pop(name) for name in list(parts) if name in Settings.__dataclass_fields__}
        model = parts.pop("model")()
        return fit(model, **parts, settings=Settings(**settings), checkpoint=tmp_path, resume=resume)

    run({"epochs": 2, **first}, resume=False)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match=f"(?i)({message})") as caught:
        run({"epochs": 4, **first, **second}, resume=True)
    assert str(tmp_path) in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "content",
    [b"{", b'{"format": "r2et-checkpoint", "version": 1, "kind": "training"}'],
    ids=["cut", "incomplete"],
)
def test_a_run_whose_file_is_damaged_is_not_resumed(tmp_path, content):
    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), checkpoint=tmp_path)
    (tmp_path / "training.json").write_bytes(content)
    with pytest.raises(CheckpointError):
        fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2), checkpoint=tmp_path, resume=True)


def test_a_run_without_its_fields_is_not_resumed(tmp_path):
    fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=1), checkpoint=tmp_path)
    path = tmp_path / "training.json"
    whole = json.loads(path.read_text())
    for field in ("identity", "progress", "optimiser"):
        path.write_text(json.dumps({name: value for name, value in whole.items() if name != field}))
        with pytest.raises(CheckpointError):
            fit(net(), TRAIN, VALIDATION, settings=Settings(epochs=2), checkpoint=tmp_path, resume=True)


# --- other processes ------------------------------------------------------------------------------------------


def run_script(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
    }
    for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_PORT"):
        environment.pop(name, None)
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize("when", ["between the files", pytest.param("in a step", marks=pytest.mark.slow)])
def test_kill_9_and_resume_equals_an_uninterrupted_run(tmp_path, when):
    script = """
        import os, signal, sys
        from r2et import fit
        from r2et.objectives import R2ET
        from r2et.checkpoints import models as checkpoints
        from r2et.training import Settings, Trainer
        from tests.training.toy import net, problem

        def die():
            os.kill(os.getpid(), signal.SIGKILL)

        class Killed(Trainer):
            def train_step(self, batch, generator, step):
                if sys.argv[1] == "in a step" and step == 10:
                    die()
                return super().train_step(batch, generator, step)

        replace, written = checkpoints.write_bytes, []

        def replace_or_die(path, content):
            written.append(path.suffix)
            if sys.argv[1] == "between the files" and written.count(".json") == 4:
                die()
            replace(path, content)

        checkpoints.write_bytes = replace_or_die
        objective = R2ET(k=2, scale_free=True)
        settings = Settings(epochs=6, batch_size=20)
        fit(net(), *problem(), objective, settings=settings, checkpoint="run", trainer=Killed)
    """
    killed = run_script(tmp_path, script, when)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    record = json.loads((tmp_path / "run" / "training.json").read_text())
    assert record["progress"]["epoch"] == 3
    files = len(list((tmp_path / "run").glob("training-*.safetensors")))
    assert files == (1 if when == "in a step" else 2)
    objective = R2ET(k=2, scale_free=True)
    straight = fit(net(), TRAIN, VALIDATION, objective, settings=Settings(epochs=6, batch_size=20))
    resumed = fit(
        net(),
        TRAIN,
        VALIDATION,
        objective,
        settings=Settings(epochs=6, batch_size=20),
        checkpoint=tmp_path / "run",
        resume=True,
    )
    assert same(weights(resumed.model), weights(straight.model))
    assert without_seconds(resumed) == without_seconds(straight)
    assert len(list((tmp_path / "run").iterdir())) == 2


OBJECTIVES = {
    "plain": CrossEntropy(),
    "r2et": R2ET(k=2, direction="gradient"),
    "cl": CertifiedRadius(k=2, weight=0.01, denominator="enclosure"),
}


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What each of two processes found, by objective.

    16 rows in batches of 5 give the processes 3 and 2 rows of each batch, and 1 and none of the last.
    """
    script = """
        import json, os
        import torch
        from r2et import fit
        from r2et.training import Settings
        from tests.training.test_trainer import OBJECTIVES
        from tests.training.toy import net, problem

        if __name__ == "__main__":
            torch.set_num_threads(1)
            parts = problem(rows=16, dtype=torch.float64)
            settings = Settings(epochs=4, batch_size=5, strategy="ddp", devices=2, accelerator="cpu")
            found = {}
            for name, objective in OBJECTIVES.items():
                result = fit(
                    net(dtype=torch.float64), *parts, objective, settings=settings, checkpoint=f"run-{name}"
                )
                found[name] = {
                    "weights": {key: value.tolist() for key, value in result.model.state_dict().items()},
                    "records": result.records,
                    "stopped": result.stopped,
                    "selected": result.selected_epoch,
                }
            rank = int(os.environ.get("LOCAL_RANK", 0))
            with open(f"rank{rank}.json", "w") as file:
                json.dump(found, file)
    """
    pytest.importorskip("lightning_fabric")  # the extra `processes`
    folder = tmp_path_factory.mktemp("ddp")
    done = run_script(folder, script)
    assert done.returncode == 0, done.stderr[-3000:]
    assert sorted(path.parent.name for path in folder.glob("run-*/training.json")) == [
        "run-cl",
        "run-plain",
        "run-r2et",
    ]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture(scope="module")
def one_process():
    parts = problem(rows=16, dtype=torch.float64)
    return {
        name: fit(net(dtype=torch.float64), *parts, objective, settings=Settings(epochs=4, batch_size=5))
        for name, objective in OBJECTIVES.items()
    }


@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_processes_train_the_model_that_one_trains(two_processes, one_process, name):
    single = one_process[name]
    assert distance(weights(single.model), weights(net(dtype=torch.float64))) > 0.01
    for rank in two_processes:
        found = rank[name]
        state = {key: torch.tensor(value, dtype=torch.float64) for key, value in found["weights"].items()}
        assert distance(weights(single.model), state) < 1e-10
        assert (found["selected"], found["stopped"]) == (single.selected_epoch, single.stopped)


@pytest.mark.parametrize("part", ["training", "validation"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_two_processes_record_what_one_records(two_processes, one_process, name, part):
    for rank in two_processes:
        assert len(rank[name]["records"]) == 4
        for mine, theirs in zip(one_process[name].records, rank[name]["records"], strict=True):
            assert mine.keys() == theirs.keys()
            for column in mine.keys() - {"seconds"}:
                if column.startswith("validation") == (part == "validation"):
                    assert theirs[column] == pytest.approx(mine[column], abs=1e-10), column
