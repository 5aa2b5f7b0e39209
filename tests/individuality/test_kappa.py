"""Kappa and its interval, against numpy's quantiles."""

import numpy as np
import torch

from r2et.individuality.kappa import Kappa, interval, kappa_of


def test_kappa_is_one_for_own_lists_and_zero_for_anybody_s():
    precision = torch.tensor([1.0, 0.4, 0.1], dtype=torch.float64)
    values = kappa_of(precision, torch.tensor(0.4, dtype=torch.float64))
    assert torch.allclose(values, torch.tensor([1.0, 0.0, -0.5], dtype=torch.float64))


def test_the_interval_holds_95_percent_of_the_resamples():
    draws = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    low, high = interval(draws)
    assert np.allclose(low, np.quantile(draws.numpy(), 0.025, axis=0))
    assert np.allclose(high, np.quantile(draws.numpy(), 0.975, axis=0))


def test_many_resamples_without_a_kappa_give_no_interval():
    draws = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None].repeat(1, 2)
    draws[:4, 0], draws[:6, 1] = torch.nan, torch.inf
    low, high = interval(draws)
    assert bool(low.isfinite()[0])
    assert bool(low.isnan()[1])
    assert bool(high.isnan()[1])


def test_json_knows_no_nan():
    assert Kappa(0.5, float("nan"), 0.7).to_dict() == {"value": 0.5, "low": None, "high": 0.7}
