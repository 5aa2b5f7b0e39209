"""One small instance of each model for images, graphs and pairs, with inputs and the explainer that fits."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import r2et
from r2et import models


@dataclass(frozen=True)
class Case:
    make: Callable[..., nn.Module]
    features: tuple[int, ...]
    explainer: r2et.explainers.Gradient | r2et.explainers.GradientTimesInput
    explained: tuple[int, ...]

    def model(self, seed: int = 0, **settings: object) -> nn.Module:
        """In float64 and evaluation mode, with statistics in its BatchNorms that do something."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.make(**settings).double()
            for layer in model.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.running_mean.normal_(0, 0.3)
                    layer.running_var.uniform_(0.5, 2)
        return model.eval()

    def inputs(self, rows: int = 4, seed: int = 1) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(rows, *self.features, generator=generator, dtype=torch.float64)


def cnn(**settings):
    return models.CNN(1, 10, 3, filters=(3, 4), hidden=(6, 5), **settings)


def resnet(**settings):
    return models.ResNet(2, 3, widths=(3, 4), blocks=1, **settings)


def gcn(**settings):
    return models.GCN(5, 3, hidden=6, embedding=4, **settings)


def siamese_cnn(**settings):
    return models.Siamese(cnn(**settings))


def siamese_resnet(**settings):
    return models.Siamese(models.ResNet(1, None, widths=(3, 4), blocks=1, **settings))


def siamese_gcn(**settings):
    return models.Siamese(models.GCN(5, hidden=6, embedding=4, **settings))


def single_input(**settings):
    return models.SingleInput(cnn(**settings), width=3, classes=2)


CASES = {
    "cnn": Case(cnn, (1, 10, 10), r2et.explainers.Gradient(), (100,)),
    "resnet": Case(resnet, (2, 6, 7), r2et.explainers.Gradient(reduce="abs-sum"), (42,)),
    "gcn": Case(gcn, (10,), r2et.explainers.GradientTimesInput(), (10,)),
    "siamese cnn": Case(siamese_cnn, (2, 1, 10, 10), r2et.explainers.Gradient(inputs=2), (2, 100)),
    "siamese resnet": Case(siamese_resnet, (2, 1, 6, 6), r2et.explainers.Gradient(inputs=2), (2, 36)),
    "siamese gcn": Case(siamese_gcn, (2, 10), r2et.explainers.GradientTimesInput(inputs=2), (2, 10)),
    "single input": Case(single_input, (1, 10, 10), r2et.explainers.Gradient(), (100,)),
}
