import threading

import numpy as np
import pytest
import torch

import r2et
from r2et.errors import InputError, ModelError
from r2et.numerics.checks import check_inputs, check_labels
from r2et.numerics.once import looking_once, once


@pytest.fixture
def look():
    seen = []

    @once
    def look(x, *rest, **options):
        seen.append(x.sum().item())

    look.seen = seen
    return look


def test_outside_nothing_is_remembered(look):
    x = torch.ones(3)
    look(x)
    look(x)
    with looking_once():
        look(x)
    with looking_once():
        look(x)
    assert len(look.seen) == 4


def test_the_inner_of_two_forgets_nothing(look):
    x = torch.ones(3)
    with looking_once():
        look(x)
        with looking_once():
            look(x)
        look(x)
    assert len(look.seen) == 1


def test_other_numbers_and_other_questions_are_looked_at(look):
    x = torch.ones(4)
    with looking_once():
        for other in (x, x.clone(), x[:2], x.double(), x.view(2, 2)):
            look(other)
        look(x.mul_(2))
        look(x, 3)
        look(x, classes=5)
    assert len(look.seen) == 8


def test_another_name_is_no_other_question(look):
    x = torch.ones(4)
    with looking_once():
        look(x, "x")
        look(x, "train.x")
    assert len(look.seen) == 1


def test_the_place_of_a_tensor_that_is_gone_is_looked_at_again():
    numbers = np.ones((2, 2))
    with looking_once():
        check_inputs(torch.from_numpy(numbers))
        numbers[0, 0] = np.nan
        with pytest.raises(InputError, match="NaN"):
            check_inputs(torch.from_numpy(numbers))


def test_a_failure_is_not_remembered_as_a_pass():
    with looking_once():
        for _ in range(2):
            with pytest.raises(InputError, match="out of range"):
                check_labels(torch.tensor([0, 2]), 2, 2)


def test_what_numpy_changes_between_two_calls_is_seen():
    numbers = np.ones((2, 2))
    x = torch.from_numpy(numbers)
    with looking_once():
        check_inputs(x)
    numbers[0, 0] = np.nan
    with looking_once(), pytest.raises(InputError, match="NaN"):
        check_inputs(x)


def test_another_thread_remembers_nothing_of_this_one(look):
    x = torch.ones(3)
    with looking_once():
        look(x)
        other = threading.Thread(target=look, args=(x,))
        other.start()
        other.join()
    assert len(look.seen) == 2


def test_what_is_no_tensor_is_looked_at(look):
    with looking_once():
        for _ in range(2):
            with pytest.raises(AttributeError):
                look("text")


def test_tensors_of_torch_func_are_looked_at(look):
    def double(row):
        check_inputs(row[None])
        return 2 * row

    with looking_once():
        for _ in range(2):
            torch.func.jacrev(double)(torch.ones(2))


def test_a_model_is_looked_at_again_when_its_weights_or_its_mode_change():
    seen = []

    @once
    def look(model, x, classes):
        seen.append(model.training)

    model, x = torch.nn.Linear(3, 2), torch.ones(2, 3)
    with looking_once():
        look(model, x, 2)
        look(model, x, classes=2)
        assert len(seen) == 1
        look(model, x, 3)
        look(model, x.clone(), 2)
        look(model.eval(), x, 2)
        with torch.no_grad():
            model.bias.add_(1)
        look(model, x, 2)
        look(torch.nn.Linear(3, 2), x, 2)
    assert len(seen) == 6


def test_a_random_model_is_refused_each_time():
    class Random(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5)

    for _ in range(2):
        with looking_once(), pytest.raises(ModelError, match="random"):
            r2et.explainers.Gradient()(Random(), torch.rand(4, 3) + 1)
