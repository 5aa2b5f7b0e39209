"""An objective in a loop of Accelerate."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from tests.integrations.table import OBJECTIVE, network, plain_loop, rows, same_weights


def test_the_weights_are_those_of_a_plain_loop():
    accelerator = Accelerator(cpu=True)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(*rows()), batch_size=64)
    model, optimiser, loader = accelerator.prepare(model, optimiser, loader)
    for _ in range(3):
        for x, y in loader:
            optimiser.zero_grad()
            accelerator.backward(OBJECTIVE(model, x, y))
            optimiser.step()
    expected = network()
    plain_loop(expected, *rows(), steps=3)
    same_weights(accelerator.unwrap_model(model), expected)
