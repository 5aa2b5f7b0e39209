"""One kernel for the whole process: taken by the first, given back by the last."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
import torch

from r2et.numerics.attention import math_attention

LONG = 30.0


def fast_kernels():
    return torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()


def test_the_kernel_is_given_back_by_the_last_of_nested_users():
    before = fast_kernels()
    assert any(before), "else the test shows nothing"
    with math_attention():
        with math_attention():
            assert fast_kernels() == (False, False)
        assert fast_kernels() == (False, False)
    assert fast_kernels() == before


def test_an_error_gives_it_back():
    before = fast_kernels()
    with pytest.raises(KeyError), math_attention():
        raise KeyError
    assert fast_kernels() == before


def test_a_thread_that_leaves_does_not_take_it_from_another():
    before, inside, leave = fast_kernels(), Event(), Event()

    def other():
        with math_attention():
            inside.set()
            assert leave.wait(LONG)

    with ThreadPoolExecutor(1) as pool:
        with math_attention():
            running = pool.submit(other)
            assert inside.wait(LONG)
        # the first has left, the second is still inside
        assert fast_kernels() == (False, False)
        leave.set()
        running.result(LONG)
    assert fast_kernels() == before
