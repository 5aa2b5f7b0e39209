"""Rows and batches: shares of processes, weights that stay with their rows, and what is not rows."""

from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch

from r2et.data import MovedImages, Split
from r2et.errors import InputError
from r2et.objectives import CrossEntropy
from r2et.training import Batch, Settings, Trainer, WeightedRows
from r2et.training.batches import Redrawn, Weighted, as_rows, take, weights_of
from r2et.training.devices import OneDevice
from tests.training.toy import net, problem

TRAIN, VALIDATION = problem(rows=17)
NUMBERS = torch.arange(17.0) + 1


class OneOfThree(OneDevice):
    world_size = 3

    def __init__(self, rank: int) -> None:
        super().__init__(torch.device("cpu"))
        self.global_rank = rank


def batches(rows: object, rank: int) -> list[Batch]:
    """The batches of one process of three, four rows each over all of them."""
    trainer = Trainer(net(), as_rows(rows, "train"), VALIDATION, CrossEntropy(), Settings(batch_size=4))
    trainer.fabric = OneOfThree(rank)
    return list(trainer.batches(epoch=0))


def test_shares_make_the_mean_over_processes_the_mean_over_the_batch():
    value = {tuple(row.tolist()): float(number) for row, number in zip(TRAIN[0], NUMBERS, strict=True)}
    whole = [[value[tuple(row.tolist())] for row in batch.x] for batch in zip_ranks(TRAIN)]
    for number, together in enumerate(whole):
        parts = [batches(TRAIN, rank)[number] for rank in range(3)]
        means = [sum(value[tuple(row.tolist())] for row in part.x) / len(part.x) for part in parts]
        weighed = sum(part.share * mean for part, mean in zip(parts, means, strict=True)) / 3
        assert weighed == pytest.approx(sum(together) / len(together))
    assert [len(together) for together in whole] == [4, 4, 4, 4, 1], "the last leaves two processes without rows"


def zip_ranks(rows: object) -> list[Batch]:
    """The whole batches, from a process that is alone."""
    trainer = Trainer(net(), as_rows(rows, "train"), VALIDATION, CrossEntropy(), Settings(batch_size=4))
    trainer.fabric = OneDevice(torch.device("cpu"))
    return list(trainer.batches(epoch=0))


def test_a_process_without_rows_of_its_own_counts_nothing():
    shares = [batches(TRAIN, rank)[-1].share for rank in range(3)]
    assert shares == [3.0, 0.0, 0.0]
    assert all(len(batches(TRAIN, rank)[-1].x) == 1 for rank in range(3))


def test_weights_stay_with_their_rows():
    for rank in range(3):
        for batch in batches(WeightedRows(*TRAIN, NUMBERS), rank):
            rows = (batch.x[:, None] == TRAIN[0][None]).all(2).int().argmax(1)
            assert torch.equal(batch.row_weights, NUMBERS[rows])
            assert torch.equal(batch.y, TRAIN[1][rows])


def test_taking_rows_keeps_order_and_share():
    batch = take(WeightedRows(*TRAIN, NUMBERS), torch.tensor([5, 2]), share=0.5)
    assert torch.equal(batch.x, TRAIN[0][[5, 2]])
    assert batch.row_weights.tolist() == [6.0, 3.0]
    assert batch.share == 0.5
    assert take(Split(*TRAIN), torch.tensor([1])).row_weights is None


def test_what_rows_can_do_is_seen_from_what_they_have():
    images = MovedImages(torch.rand(4, 1, 6, 6), torch.arange(4) % 2, shift=1)
    assert isinstance(images, Redrawn)
    assert not isinstance(images, Weighted)
    assert not isinstance(WeightedRows(*TRAIN), Redrawn)
    assert weights_of(WeightedRows(*TRAIN)) is None
    assert weights_of(SimpleNamespace(x=TRAIN[0], y=TRAIN[1], weights=NUMBERS)) is NUMBERS


@pytest.mark.parametrize(
    "part",
    [
        TRAIN,
        list(TRAIN),
        Split(*TRAIN),
        SimpleNamespace(x=TRAIN[0], y=TRAIN[1]),
        namedtuple("Pair", "x y")(*TRAIN),
    ],
    ids=["tuple", "list", "split", "object", "named"],
)
def test_rows_come_in_many_forms(part):
    rows = as_rows(part, "train")
    assert rows.x is TRAIN[0]
    assert rows.y is TRAIN[1]


@pytest.mark.parametrize("part", [None, TRAIN[0], (*TRAIN, NUMBERS), SimpleNamespace(x=TRAIN[0])])
def test_what_is_not_rows(part):
    with pytest.raises(InputError, match=r"test must be \(x, y\), or an object with .x and .y, got"):
        as_rows(part, "test")


def test_weights_of_an_object_are_checked():
    with pytest.raises(InputError, match=r"got -1.0 in row 3"):
        as_rows(SimpleNamespace(x=TRAIN[0], y=TRAIN[1], weights=3 - NUMBERS), "train")
