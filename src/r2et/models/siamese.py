"""Siamese networks on pairs, and the classifier of single inputs that goes with them (App. B.1, B.2.3)."""

from typing import Any

import torch
from torch import Tensor, nn

from r2et.errors import InputError, ModelError
from r2et.models.architecture import MODELS, check_layers, confirmed, traced
from r2et.numerics.modes import copied
from r2et.numerics.values import check_count, check_flag

#: added to squared lengths: 1 / 10,000 as a length, far below any embedding of a trained network
SQUARED_LENGTH_FLOOR = 1e-8


@MODELS.register("siamese")
class Siamese(nn.Module):
    """Are two inputs of one class? Cosine similarity of their embeddings, then a linear layer (App. B.1).

    Pairs (N, 2, *features) -> logits (N, 2); class 1 = the same class. Both inputs of a pair go through the one
    embedding in one batch, the first inputs first, so that the net is symmetric in them, also under the batch
    statistics of a BatchNorm in training.

    `explainers.Activation(layer="embedding", inputs=2)` explains the embeddings; a layer of the embedding is
    called "embedding." and its name there, as "embedding.avgpool" for the penultimate layer of a `ResNet`.

    Args:
        embedding: any module (M, *features) -> (M, e): a `CNN` with e classes, a `GCN` or a `ResNet`
            without classes.

    >>> from r2et.models import create
    >>> cnn = {"name": "cnn", "channels": 1, "size": 12, "classes": 8}
    >>> model = create("siamese", embedding=cnn)
    >>> model(torch.randn(3, 2, 1, 12, 12)).shape
    torch.Size([3, 2])
    """

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        _check_embedding(embedding)
        self.embedding = embedding
        self.classifier = nn.Linear(1, 2)
        with torch.no_grad():
            # from a random sign every second net would begin by pulling inputs of one class apart
            self.classifier.weight.copy_(torch.tensor([[-1.0], [1.0]]))
            self.classifier.bias.zero_()

    def embed(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """The embeddings (N, e) of the first and of the second inputs of pairs (N, 2, *features)."""
        check_pairs(pairs)
        embedded = self.embedding(pairs.transpose(0, 1).flatten(0, 1))
        check_embedded(embedded)
        halves = embedded.chunk(2)
        return halves[0], halves[1]

    def similarity(self, pairs: Tensor) -> Tensor:
        """The cosine similarity of the two embeddings (N,) of pairs (N, 2, *features)."""
        return cosine_similarity(*self.embed(pairs))

    def forward(self, pairs: Tensor) -> Tensor:
        """Logits (N, 2) of pairs (N, 2, *features)."""
        logits: Tensor = self.classifier(self.similarity(pairs).unsqueeze(1))
        return logits

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again."""
        described = confirmed(self, Siamese, {"embedding": self.embedding})
        return described | {"embedding": _describe(self.embedding)}


@MODELS.register("single-input")
class SingleInput(nn.Module):
    """f^CL: a linear classifier of single inputs on a copy of a Siamese net's embedding (App. B.2.3).

    (M, *features) -> (M, classes). A constrained attack on a pair must keep S = 3 predictions: the Siamese net's,
    and this one's on each of the two inputs. Train it on single inputs, then hand `of_pairs` to the attack:
    `r2et.attacks.ERAttack(..., predictions=classifier.of_pairs)`.

    Args:
        embedding: of the Siamese net, (M, *features) -> (M, width). It is copied: training this classifier does
            not change the net.
        width: of the embedding.
        classes: logits.
        retrain: whether the copy is trained too (w_0' retrained from w_0 in the paper); else it stays as it is, in
            evaluation mode, and only the linear layer learns.

    >>> siamese = Siamese(nn.Linear(6, 4))
    >>> classifier = SingleInput(siamese.embedding, width=4, classes=2)
    >>> [logits.shape for logits in classifier.of_pairs(torch.randn(3, 2, 6))]
    [torch.Size([3, 2]), torch.Size([3, 2])]
    """

    def __init__(self, embedding: nn.Module, width: int, classes: int, retrain: bool = False) -> None:
        super().__init__()
        _check_embedding(embedding)
        check_count("width", width)
        check_count("classes", classes)
        check_flag("retrain", retrain)
        retrain = bool(retrain)
        check_layers("a classifier", width, classes)
        self.retrain = retrain
        self.embedding = copied(embedding).requires_grad_(retrain)
        self.head = nn.Linear(width, classes)
        self.train(self.training)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (M, classes) of single inputs (M, *features)."""
        logits: Tensor = self.head(self.embedding(x))
        return logits

    def of_pairs(self, pairs: Tensor) -> list[Tensor]:
        """Logits (N, classes) of the first and of the second inputs of pairs (N, 2, *features)."""
        check_pairs(pairs)
        return [self(pairs[:, 0]), self(pairs[:, 1])]

    def train(self, mode: bool = True) -> "SingleInput":
        """Set the training flag; a frozen embedding stays in evaluation mode."""
        super().train(mode)
        if not self.retrain:
            self.embedding.eval()
        return self

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again."""
        settings = {
            "embedding": self.embedding,
            "width": self.head.in_features,
            "classes": self.head.out_features,
            "retrain": self.retrain,
        }
        return confirmed(self, SingleInput, settings) | {"embedding": _describe(self.embedding)}


def cosine_similarity(first: Tensor, second: Tensor) -> Tensor:
    """a . b / sqrt((|a|^2 + 1e-8) (|b|^2 + 1e-8)), (N,), of vectors (N, e) each.

    Unlike torch's, which clamps lengths, it has every derivative at the zero vector: there it is 0.

    >>> cosine_similarity(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[4.0, 3.0], [1.0, 0.0]]))
    tensor([0.9600, 0.0000])
    """
    scale_first = (first.square().sum(1) + SQUARED_LENGTH_FLOOR).rsqrt()
    scale_second = (second.square().sum(1) + SQUARED_LENGTH_FLOOR).rsqrt()
    return (first * second).sum(1) * (scale_first * scale_second)


def check_pairs(pairs: Tensor) -> None:
    """A batch of pairs (N, 2, *features)."""
    if not traced(pairs) and (pairs.ndim < 3 or pairs.shape[1] != 2):
        raise InputError(f"a Siamese net takes pairs of shape (N, 2, *features), got {tuple(pairs.shape)}")


def check_embedded(embedded: Tensor) -> None:
    """The output (M, e) of an embedding."""
    if not traced(embedded) and embedded.ndim != 2:
        raise ModelError(f"an embedding must return (M, e), got {tuple(embedded.shape)}; end it with nn.Flatten()")


def _check_embedding(embedding: nn.Module) -> None:
    if not isinstance(embedding, nn.Module):
        raise InputError(
            f"the embedding must be a module, got {embedding!r}; build one from an architecture with "
            "r2et.models.create(name, embedding={'name': ..., ...})"
        )


def _describe(embedding: nn.Module) -> dict[str, Any]:
    described = getattr(embedding, "architecture", None)
    if not isinstance(described, dict):
        raise InputError(
            f"the embedding {type(embedding).__name__} is not a model of r2et.models, so it cannot be described "
            "in a checkpoint: save its state_dict() with safetensors"
        )
    return described
