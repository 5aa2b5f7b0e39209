"""Models with and without the problems that `r2et.validate` looks for."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from r2et import validate
from r2et.validate import Finding

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(6, 3, 8, generator=torch.Generator().manual_seed(1))


def mlp(*middle: nn.Module, width: int = 16) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), *middle, nn.Linear(width, 2)).eval()


def exported(model: nn.Module) -> nn.Module:
    return torch.export.export(model, (X,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)).module()


class Calls(nn.Module):
    """A net whose activation is a function called in its own forward."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(0)
        self.function = function
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


def ignored_result(h: Tensor) -> Tensor:
    h.relu_()
    return h


class Attention(nn.Module):
    """Sequences (N, length, 8) to logits."""

    def __init__(self, layer: nn.Module | None = None):
        super().__init__()
        self.layer, self.last = layer, nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.layer, nn.MultiheadAttention):
            h = self.layer(x, x, x)[0]
        elif self.layer is not None:
            h = self.layer(x)
        else:
            heads = x.unflatten(2, (2, 4)).transpose(1, 2)
            h = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(start_dim=2)
        return self.last(h.mean(1))


class Recurrent(nn.Module):
    def __init__(self, layer: nn.Module, broken: bool = False):
        super().__init__()
        self.layer, self.last, self.broken = layer, nn.Linear(5, 2), broken

    def forward(self, x: Tensor) -> Tensor:
        h = self.layer(x)[0].mean(1)
        return self.last(FailsUnderCudnn.apply(h) if self.broken else h)


class Answers(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"logits": x}


class FailsUnderCudnn(torch.autograd.Function):
    """Stands for cuDNN on a machine that has none: an error in backward while cuDNN is enabled."""

    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, gradient):
        if torch.backends.cudnn.enabled:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        return gradient


class OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        ctx.save_for_backward(h)
        return h.exp()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].exp()


def found(model: nn.Module, x: Tensor = X, **options) -> dict[str, Finding]:
    return {finding.code: finding for finding in validate.check(model, x, **options).findings}


def second_derivative(model: nn.Module, x: Tensor) -> Tensor:
    point = x.clone().requires_grad_()
    logits = model(point)
    gradient = torch.autograd.grad((logits[:, 1] - logits[:, 0]).sum(), point, create_graph=True)[0]
    return torch.autograd.grad(gradient.square().sum(), point)[0]
