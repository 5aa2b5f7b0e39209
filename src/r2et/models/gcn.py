"""A graph convolutional network on edge weights, for brain networks (App. B.1)."""

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from r2et.errors import InputError
from r2et.models.architecture import (
    MODELS,
    activation_maker,
    check_layers,
    check_shape,
    confirmed,
    describe_activation,
)
from r2et.numerics.values import check_choice, check_count, check_positive

SelfLoops = Literal["unit", "renormalised"]


@MODELS.register("gcn")
class GCN(nn.Module):
    """Two graph convolutions and the mean over nodes (App. B.1, "Graph data"), as a function of the edges.

    (N, edges) -> (N, embedding), or logits (N, classes) with `classes`. The input of one graph is the upper
    triangle of its symmetric matrix A of edge weights, row by row without the diagonal (the order of
    `torch.triu_indices` and `numpy.triu_indices`), so an explanation has one score per edge. The features of a
    node are its connection profile, its row of A:

        Â = I + D^-1/2 A D^-1/2,   z = mean over nodes of (Â act(Â A W_1 + b_1) W_2 + b_2)

    **Signed edges.** The usual degree, the sum of a node's edges, can be zero or negative, and then has no inverse
    square root; torch_geometric's DenseGCNConv takes 1 for it where it is below 1, a kink. Here D is the degree in
    absolute weights, d_i = 1 + sum_j |a_ij|. |a| has a kink as well, at 0, so that sqrt(a^2 + s^2) - s with
    s = `softness` stands for it: no degree for a missing edge, and any number of derivatives.

    **Self-loops.** With "unit" ones, as above, a node keeps its own profile beside its neighbours' (Kipf and
    Welling 2017, Eq. 7). "renormalised" ones are their Eq. 8 and DenseGCNConv's, Â = D^-1/2 (A + I) D^-1/2:
    where no edge is negative and `softness` is small, the model is then made of DenseGCNConv. In a dense graph of
    standardised edges the degrees are near the number of nodes, which shrinks a node's own part to nothing: such a
    net learns slowly.

    Standardise edges on the training graphs: on raw correlations all embeddings point the same way.

    Args:
        nodes: of a graph; it has nodes (nodes - 1) / 2 edges.
        classes: logits of a linear layer on the embedding; None = the embedding itself, for a `Siamese`.
        hidden: width of the first convolution.
        embedding: width of the second.
        softness: edge weight below which an edge's share of the degree is rounded off, in the units of the edges.
        self_loops: "unit" or "renormalised".
        activation: after the first convolution, as in `MLP`.
        beta: sharpness of softplus; only for that activation.

    >>> model = GCN(nodes=5, classes=2)
    >>> model(torch.randn(3, 10)).shape
    torch.Size([3, 2])
    """

    def __init__(
        self,
        nodes: int,
        classes: int | None = None,
        hidden: int = 256,
        embedding: int = 128,
        softness: float = 0.1,
        self_loops: SelfLoops = "unit",
        activation: str = "relu",
        beta: float | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("nodes", nodes), ("hidden", hidden), ("embedding", embedding)):
            check_count(name, value)
        if nodes < 2:
            raise InputError(f"a graph needs at least 2 nodes to have an edge, got nodes={nodes}")
        if classes is not None:
            check_count("classes", classes)
        check_layers("a GCN", nodes, hidden, embedding, classes or 1)
        check_positive("softness", softness)
        check_choice("self_loops", self_loops, get_args(SelfLoops))
        self.softness = float(softness)
        self.self_loops = self_loops
        self.first = nn.Linear(nodes, hidden)
        self.activation = activation_maker(activation, beta)()
        self.second = nn.Linear(hidden, embedding)
        self.head = nn.Linear(embedding, classes) if classes is not None else None

    @property
    def nodes(self) -> int:
        """How many nodes a graph has."""
        return self.first.in_features

    @property
    def edges(self) -> int:
        """How many edges a graph has: the length of an input."""
        return self.nodes * (self.nodes - 1) // 2

    def adjacency(self, x: Tensor) -> Tensor:
        """The symmetric matrices A (N, nodes, nodes) of edges (N, edges); the diagonal is zero.

        >>> GCN(nodes=3).adjacency(torch.tensor([[1.0, 2.0, 3.0]]))
        tensor([[[0., 1., 2.],
                 [1., 0., 3.],
                 [2., 3., 0.]]])
        """
        row, column = torch.triu_indices(self.nodes, self.nodes, offset=1, device=x.device).unbind()
        upper: Tensor = x.new_zeros(x.shape[0], self.nodes**2).index_copy(1, row * self.nodes + column, x)
        upper = upper.reshape(-1, self.nodes, self.nodes)
        return upper + upper.transpose(1, 2)

    def normalised(self, adjacency: Tensor) -> Tensor:
        """Â (N, nodes, nodes) of A (N, nodes, nodes), with the degrees and self-loops described above."""
        squares = adjacency.square()
        # sqrt(a^2 + s^2) - s without the cancellation
        magnitudes = squares / ((squares + self.softness**2).sqrt() + self.softness)
        scale = (1 + magnitudes.sum(-1)).rsqrt()
        loops = torch.eye(self.nodes, dtype=adjacency.dtype, device=adjacency.device)
        if self.self_loops == "renormalised":
            return scale[:, :, None] * (adjacency + loops) * scale[:, None, :]
        return scale[:, :, None] * adjacency * scale[:, None, :] + loops

    def forward(self, x: Tensor) -> Tensor:
        """The embedding (N, embedding) or the logits (N, classes) of edges (N, edges)."""
        check_shape(x, (self.edges,), f"this GCN of {self.nodes} nodes")
        adjacency = self.adjacency(x)
        normalised = self.normalised(adjacency)
        hidden = self.activation(self.first(normalised @ adjacency))
        # nothing bends after the second convolution, so the mean over nodes is taken before it: the same sum, with
        # a product of vector and matrix in place of one of two matrices
        pooled = (normalised.mean(1, keepdim=True) @ hidden).squeeze(1)
        embedding: Tensor = self.second(pooled)
        return embedding if self.head is None else self.head(embedding)

    def extra_repr(self) -> str:
        """The settings that the layers do not show."""
        return f"softness={self.softness}, self_loops={self.self_loops!r}"

    @property
    def architecture(self) -> dict[str, Any]:
        """What `r2et.models.create` needs to build this model again; read off the layers that are there."""
        settings = {
            "nodes": self.nodes,
            "classes": None if self.head is None else self.head.out_features,
            "hidden": self.first.out_features,
            "embedding": self.second.out_features,
            "softness": self.softness,
            "self_loops": self.self_loops,
            **describe_activation(self.activation),
        }
        return confirmed(self, GCN, settings)
