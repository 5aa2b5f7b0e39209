"""The training loop: a ladder of small steps, each of which a subclass can replace."""

import math
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from r2et import metrics
from r2et.errors import CheckpointError, InputError
from r2et.numerics.memory import at_once
from r2et.numerics.modes import copied
from r2et.numerics.values import check_kind
from r2et.objectives import Loss, Objective
from r2et.progress import Advance, progress_bar
from r2et.ranking import precision_at_k
from r2et.scores import prediction
from r2et.training import runs
from r2et.training.batches import Batch, Redrawn, TrainingRows, take, weights_of
from r2et.training.compiled import CannotCompileError, CompiledStep
from r2et.training.devices import Runtime
from r2et.training.seeds import derived, generator_for
from r2et.training.settings import FitResult, Progress, Retraining, Settings

#: values that a regulariser keeps of each input value, in several graphs
GRAPHS = 32


class Trainer:
    """The loop under `fit`. Subclass it and pass `trainer=` to `fit` to replace a step.

    From the outermost step inwards: `run`, `train_epoch`, `batches`, `train_step`, then `validate`, `select` and
    `reason_to_stop`; `make_optimiser` and `make_schedule` build what the steps use.
    """

    def __init__(
        self,
        model: nn.Module,
        train: TrainingRows,
        validation: TrainingRows,
        objective: Objective,
        settings: Settings,
        *,
        retraining: Retraining | None = None,
        folder: Path | None = None,
        resume: bool = False,
    ) -> None:
        check_kind("objective", objective, Objective, "r2et.objectives.R2ET(k=8)")
        check_kind("settings", settings, Settings, "r2et.training.Settings(epochs=10)")
        self.original, self.train, self.validation = model, train, validation
        self.objective, self.settings = objective, settings
        self.retraining, self.folder, self.resume = retraining, folder, resume
        self.state = Progress()
        self.selected: dict[str, Tensor] = {}
        self.compiled: CompiledStep | None = None

    # --- the steps ------------------------------------------------------------------------------------------

    def run(self, fabric: Runtime) -> FitResult:
        """Train to the end and return the selected model."""
        self.fabric = fabric
        self.optimiser = self.make_optimiser(self.original.parameters())
        self.model, wrapped = fabric.setup(self.original, self.optimiser)
        self.wrapped_optimiser = wrapped
        self.schedule = self.make_schedule(self.optimiser)
        self._prepare()
        with progress_bar(
            "training", self.settings.epochs, self.settings.progress and fabric.is_global_zero
        ) as bar:
            bar(self.state.epoch)
            while not self.state.stopped:
                self._epoch(bar)
        self.original.load_state_dict(self.selected)
        state = self.state
        return FitResult(
            model=self.original.eval(),
            records=state.records,
            selected_epoch=state.selected_epoch,
            auc=state.selected_auc,
            passed=state.passed,
            stopped=state.stopped,
        )

    def make_optimiser(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        """The optimiser: Adam unless the settings name another."""
        if self.settings.optimiser is not None:
            return self.settings.optimiser(parameters)
        return torch.optim.Adam(parameters, lr=self.settings.lr, weight_decay=self.settings.weight_decay)

    def make_schedule(self, optimiser: Optimizer) -> LRScheduler | None:
        """The learning-rate schedule, stepped once per epoch: none unless the settings name one."""
        return None if self.settings.schedule is None else self.settings.schedule(optimiser)

    def step_schedule(self, record: dict[str, float]) -> None:
        """Step the schedule at the end of an epoch; one that watches a value is shown the validation loss."""
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(record["validation loss"])
        elif self.schedule is not None:
            self.schedule.step()

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The share that this process has of each batch.

        The order depends on seed and epoch alone, so that a resumed run sees what an uninterrupted one sees. So do
        the rows, if the training data are drawn anew in each epoch.
        """
        world, rank = self.fabric.world_size, self.fabric.global_rank
        train = self.train
        if isinstance(train, Redrawn):
            train = train.redraw(generator_for(self.settings.seed, "pairs", epoch))
        order = torch.randperm(len(train.x), generator=generator_for(self.settings.seed, "order", epoch))
        for rows in order.split(self.settings.batch_size):
            mine = rows[rank::world]
            share = len(mine) * world / len(rows)
            # a process without rows of its own still takes part in the reduction, with share 0
            yield take(train, mine if len(mine) else rows[:1], share)

    def train_epoch(self, epoch: int) -> dict[str, float]:
        """All steps of one epoch; the mean of the loss and of each of its parts."""
        self.model.train()
        if self.retraining is not None and self.retraining.freeze_statistics:
            for layer in self.model.modules():
                if isinstance(layer, _BatchNorm):
                    layer.eval()
        generator = generator_for(self.settings.seed, "objective", epoch, device=self.fabric.device)
        totals: dict[str, Tensor] = {}
        counts: dict[str, int] = {}
        steps = -(-len(self.train.x) // self.settings.batch_size)
        for number, batch in enumerate(self.batches(epoch)):
            loss = self.train_step(self._on_device(batch), generator, epoch * steps + number)
            for name, value in {"loss": loss.total.detach(), **loss.parts}.items():
                totals[name] = totals.get(name, torch.zeros_like(value)) + batch.share * value
                counts[name] = counts.get(name, 0) + 1
        if self.fabric.world_size > 1:
            for name, total in totals.items():
                reduced = self.fabric.all_reduce(total, reduce_op="mean")
                totals[name] = torch.as_tensor(reduced)
        return {name: float(total) / counts[name] for name, total in totals.items()}

    def train_step(self, batch: Batch, generator: torch.Generator, step: int) -> Loss:
        """One step of the optimiser."""
        if self.compiled is not None:
            try:
                loss = self.compiled(batch.x, batch.y, step)
            except CannotCompileError as error:
                self._give_up_compiling(str(error))
                return self.train_step(batch, generator, step)
        else:
            self.wrapped_optimiser.zero_grad()
            loss = self.loss(batch, generator, step)
            self.fabric.backward(loss.total * batch.share if batch.share != 1 else loss.total)
        self.wrapped_optimiser.step()
        return loss

    def loss(self, batch: Batch, generator: torch.Generator, step: int) -> Loss:
        """The objective's value on a batch; one whose rows have no weights is not told of weights."""
        weighed = {} if batch.row_weights is None else {"weights": batch.row_weights}
        return self.objective.evaluate(self.model, batch.x, batch.y, generator=generator, step=step, **weighed)

    def validate(self) -> dict[str, float]:
        """Validation AUC or R2, loss and its parts; in retraining also P@k against the reference's ranking."""
        self.model.eval()
        x, y = self.validation.x, self.validation.y
        generator = generator_for(self.settings.seed, "validation", device=self.fabric.device)
        totals: dict[str, float] = {}
        for rows in torch.arange(len(x)).split(_rows_at_once(x)):
            loss = self.loss(self._on_device(take(self.validation, rows)), generator, step=0)
            for name, value in {"loss": loss.total.detach(), **loss.parts}.items():
                totals[name] = totals.get(name, 0.0) + float(value) * len(rows) / len(x)
        figures = {f"validation {name}": value for name, value in totals.items()}
        if not all(map(math.isfinite, figures.values())):
            return {**figures, self._quality: math.nan}
        figures[self._quality] = metrics.quality(self.original, self.fabric.to_device(x), y)
        if self.retraining is not None:
            figures["ranking kept"] = self._ranking_kept(self.retraining)
        return figures

    def select(self, record: dict[str, float]) -> bool:
        """Whether this epoch's weights are the ones to keep so far (B.1.2).

        With a threshold: the last epoch whose validation AUC reaches it, else the one with the best AUC. Without:
        the one with the lowest validation loss.
        """
        state, auc = self.state, record[self._quality]
        threshold = self.settings.threshold
        if threshold is None:
            state.passed = True
            return record["validation loss"] < state.best_loss
        if auc >= threshold:
            state.passed = True
            return True
        return not state.passed and auc > state.selected_auc

    def reason_to_stop(self, record: dict[str, float]) -> str:
        """Why training ends here; empty to go on."""
        settings, state = self.settings, self.state
        if not all(map(math.isfinite, record.values())):
            return "diverged"
        if self.retraining is not None:
            if record["ranking kept"] < self.retraining.min_precision:
                return "ranking"
            if record[self._quality] < self.reference_auc - self.retraining.max_auc_drop:
                return "auc"
        if settings.patience is not None and state.epoch - state.best_loss_epoch >= settings.patience:
            return "patience"
        return "epochs" if state.epoch >= settings.epochs else ""

    @property
    def _quality(self) -> str:
        """What the figure is called that says how well a model predicts validation rows."""
        return "validation r2" if self.validation.y.is_floating_point() else "validation auc"

    # --- what holds them together ---------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.retraining is not None:
            reference = copied(self.retraining.reference).eval().requires_grad_(requires_grad=False)
            self.retraining = replace(self.retraining, reference=reference.to(self.fabric.device))
            self.reference_auc = metrics.quality(
                reference, self.fabric.to_device(self.validation.x), self.validation.y
            )
            self.model.eval()  # what is measured before the first epoch must not move a BatchNorm's statistics
            self._ranking_kept(self.retraining)  # a k that does not fit is noticed before anything is trained
            if "reference" in {entry.name for entry in fields(self.objective)}:
                self.objective = replace(self.objective, reference=reference)  # type: ignore[call-arg]  # has it
        if self.settings.compile:
            try:
                if self.fabric.world_size > 1:
                    raise CannotCompileError("several processes share the gradients")
                if weights_of(self.train) is not None:
                    raise CannotCompileError("the rows have weights")
                self.compiled = CompiledStep(self.objective, self.original)
            except CannotCompileError as error:
                self._give_up_compiling(str(error))
        if self.resume and self.folder is not None and runs.exists(self.folder):
            self._restore(self.folder)
        elif self.retraining is not None:
            # if the very first epoch breaks the ranking, the answer is the model that came in
            auc = metrics.quality(self.original, self.fabric.to_device(self.validation.x), self.validation.y)
            self.state.passed = self.settings.threshold is None or auc >= self.settings.threshold
            self._keep(auc)

    def _epoch(self, advance: Advance) -> None:
        started = time.perf_counter()
        state = self.state
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived(self.settings.seed, "layers", state.epoch))
            record = {"epoch": state.epoch + 1.0, **self.train_epoch(state.epoch)}
        state.epoch += 1
        record |= self.validate()
        self.step_schedule(record)
        broken = self.reason_to_stop(record) in ("diverged", "ranking", "auc")
        if not broken and self.select(record):
            self._keep(record[self._quality])
        if not broken and record["validation loss"] < state.best_loss:
            state.best_loss, state.best_loss_epoch = record["validation loss"], state.epoch
        state.stopped = self.reason_to_stop(record)
        record["seconds"] = time.perf_counter() - started
        state.records.append(record)
        if not self.selected:
            raise InputError(
                f"training diverged in its first epoch: {record}; lower the learning rate (lr={self.settings.lr}) "
                "or the weights of the regularisers"
            )
        self._save()
        advance(1)

    def _keep(self, auc: float) -> None:
        self.state.selected_epoch, self.state.selected_auc = self.state.epoch, auc
        self.selected = {name: value.detach().clone() for name, value in self.original.state_dict().items()}

    def _ranking_kept(self, retraining: Retraining) -> float:
        compared = self.validation.x[:1000]
        kept = []
        for part in compared.split(_rows_at_once(compared)):
            x = self.fabric.to_device(part)
            target = prediction(retraining.reference, x)
            ranked = [retraining.explainer(model, x, target) for model in (retraining.reference, self.original)]
            kept.append(precision_at_k(ranked[0], ranked[1], retraining.k, positive=retraining.explainer.positive))
        return float(torch.cat(kept).mean())

    def _on_device(self, batch: Batch) -> Batch:
        move = self.fabric.to_device
        weights = None if batch.row_weights is None else move(batch.row_weights)
        return replace(batch, x=move(batch.x), y=move(batch.y), row_weights=weights)

    def _give_up_compiling(self, reason: str) -> None:
        self.compiled = None
        warnings.warn(f"compile=True was not possible: {reason}; training goes on uncompiled", stacklevel=2)

    @cached_property
    def _identity(self) -> dict[str, object]:
        """What must be the same for a run to be resumed; once per run, because it hashes all of the data."""
        return runs.identity(
            self.settings,
            model=self.original,
            objective=self.objective,
            optimiser=self.optimiser,
            schedule=self.schedule,
            retraining=self.retraining,
            rows=(self.train, self.validation),
        )

    def _saved_parts(self) -> runs.Parts:
        return runs.Parts(self.original, self.optimiser, self.schedule)

    def _save(self) -> None:
        if self.folder is None:
            return
        if self.fabric.is_global_zero:
            runs.save(self.folder, self._identity, self._saved_parts(), self.selected, self.state)
        self.fabric.barrier()

    def _restore(self, folder: Path) -> None:
        selected, self.state = runs.restore(folder, self._identity, self._saved_parts())
        self.selected = {name: self.fabric.to_device(value) for name, value in selected.items()}
        try:
            # epochs and patience may have been changed: decide again
            self.state.stopped = self.reason_to_stop(self.state.records[-1])
        except KeyError as error:
            raise CheckpointError(f"the last epoch of the run in {str(folder)!r} lacks {error}") from error


def _rows_at_once(x: Tensor) -> int:
    return min(1024, at_once(x[0].numel(), copies=GRAPHS))
