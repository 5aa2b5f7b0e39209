"""Sums of the cheapest columns, against sorting by hand."""

import torch

from r2et.certificates.prices import Moves, Prices, costs


def test_the_cheapest_members_and_others_are_paid_for():
    member = torch.tensor([[True, True, False, False]])
    still = (torch.tensor([[0.5, torch.inf]]), torch.tensor([[torch.inf, torch.inf]]))
    price = torch.tensor([4.0, 1.0, 2.0, 7.0]).reshape(1, 4, 1, 1)
    levels = torch.tensor([[[0.0, 1.0]]])
    prices = Prices(price, price + 1, price.expand(-1, -1, -1, 2))
    inside, there = costs(Moves(member, still, ()), prices, levels, torch.tensor([[1], [2], [3]]))
    # one member stays below 1 and is free on the cell and at its upper end, not at 0
    assert inside.flatten().tolist() == [2.0, 10.0, torch.inf]
    assert there[0].tolist() == [[3.0, 2.0], [14.0, 10.0], [torch.inf, torch.inf]]


def test_no_number_costs_nothing():
    member, still = torch.tensor([[True, False]]), (torch.full((1, 1), torch.inf), torch.full((1, 1), torch.inf))
    price = torch.tensor([torch.nan, 1.0]).reshape(1, 2, 1, 1)
    prices = Prices(price, price, price.expand(-1, -1, -1, 2))
    inside, there = costs(Moves(member, still, ()), prices, torch.tensor([[[0.0, 1.0]]]), torch.tensor([[1]]))
    assert inside.item() == 0
    assert there.flatten().tolist() == [0.0, 0.0]
