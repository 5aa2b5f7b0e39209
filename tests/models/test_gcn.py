import math

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dense_to_sparse

import r2et
from r2et import models
from r2et.errors import InputError

NODES = 6


def graph_net(seed: int = 0, **settings) -> models.GCN:
    torch.manual_seed(seed)
    return models.GCN(NODES, **{"hidden": 7, "embedding": 4, **settings}).double()


def edges(rows: int = 5, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, NODES * (NODES - 1) // 2, generator=generator, dtype=torch.float64)


def by_hand(model: models.GCN, x: torch.Tensor, self_loops: str, activation) -> np.ndarray:
    """The formula of the description, graph by graph."""
    first, second = model.first, model.second
    w1, b1, w2, b2 = (p.detach().numpy() for p in (first.weight, first.bias, second.weight, second.bias))
    results = []
    for row in x.detach().numpy():
        a = np.zeros((NODES, NODES))
        a[np.triu_indices(NODES, 1)] = row
        a = a + a.T
        magnitude = np.sqrt(a**2 + model.softness**2) - model.softness
        d = np.diag(1 / np.sqrt(1 + magnitude.sum(1)))
        hats = {"unit": np.eye(NODES) + d @ a @ d, "renormalised": d @ (a + np.eye(NODES)) @ d}
        hat = hats[self_loops]
        hidden = activation(hat @ a @ w1.T + b1)
        results.append((hat @ hidden @ w2.T + b2).mean(0))
    return np.stack(results)


@pytest.mark.parametrize("self_loops", ["unit", "renormalised"])
@pytest.mark.parametrize(
    ("settings", "activation"),
    [
        ({}, lambda z: np.maximum(z, 0)),
        ({"activation": "softplus", "beta": 2.0}, lambda z: np.log1p(np.exp(2 * z)) / 2),
        ({"softness": 0.7}, lambda z: np.maximum(z, 0)),
    ],
)
def test_a_gcn_is_its_formula(self_loops, settings, activation):
    model, x = graph_net(self_loops=self_loops, **settings), edges()
    expected = by_hand(model, x, self_loops, activation)
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=0, atol=1e-12)


def test_a_classifier_is_a_linear_layer_on_the_embedding():
    model, x = graph_net(classes=3), edges()
    embedding = by_hand(model, x, "unit", lambda z: np.maximum(z, 0))
    expected = embedding @ model.head.weight.detach().numpy().T + model.head.bias.detach().numpy()
    np.testing.assert_allclose(model(x).detach().numpy(), expected, rtol=0, atol=1e-12)


def test_without_negative_edges_it_is_the_usual_normalisation():
    model, x = graph_net(self_loops="renormalised", softness=1e-12), edges().abs()
    looped = model.adjacency(x) + torch.eye(NODES)
    degrees = looped.sum(-1)
    expected = looped / (degrees[:, :, None] * degrees[:, None, :]).sqrt()
    torch.testing.assert_close(model.normalised(model.adjacency(x)), expected, rtol=1e-9, atol=1e-9)


def usual_layer(features, adjacency, layer):
    """Kipf and Welling's layer, node by node: neighbours and the node itself, weighted by roots of degrees."""
    degrees = [1 + sum(row) for row in adjacency]
    rows = []
    for i, row in enumerate(adjacency):
        messages = [
            (edge + (i == j)) / math.sqrt(degrees[i] * degrees[j]) * features[j] for j, edge in enumerate(row)
        ]
        rows.append(layer.weight @ torch.stack(messages).sum(0) + layer.bias)
    return torch.stack(rows)


def test_it_is_made_of_the_usual_layers_where_no_edge_is_negative():
    model, x = graph_net(self_loops="renormalised", softness=1e-12), edges().abs()
    for embedding, matrix in zip(model(x), model.adjacency(x), strict=True):
        hidden = usual_layer(matrix, matrix.tolist(), model.first).relu()
        nodes = usual_layer(hidden, matrix.tolist(), model.second)
        torch.testing.assert_close(embedding, nodes.mean(0), rtol=1e-9, atol=1e-9)


def test_the_paper_widths_are_the_default():
    model = models.GCN(116)
    assert (model.nodes, model.edges) == (116, 6670)
    assert model(torch.zeros(1, 6670)).shape == (1, 128)
    assert sum(p.numel() for p in model.parameters()) == 116 * 256 + 256 + 256 * 128 + 128
    assert list(model.state_dict()) == ["first.weight", "first.bias", "second.weight", "second.bias"]


def test_edges_are_the_upper_triangle_row_by_row():
    x = torch.arange(1.0, 16.0)[None]
    (matrix,) = models.GCN(NODES).adjacency(x)
    assert torch.equal(matrix, matrix.T)
    assert torch.equal(matrix.diagonal(), torch.zeros(NODES))
    assert torch.equal(matrix[0, 1:], torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))
    rows, columns = np.triu_indices(NODES, 1)
    assert torch.equal(matrix[rows, columns], x[0])


@pytest.mark.parametrize("x", [-edges().abs(), -100 * edges().abs(), torch.zeros(2, 15).double(), 1e6 * edges()])
def test_signed_edges_stay_finite(x):
    """The sum of these edges is negative for every node, zero, or huge; a usual degree has no root."""
    model = graph_net()
    normalised = model.normalised(model.adjacency(x))
    assert torch.isfinite(normalised).all()
    # |D^-1/2 A D^-1/2| has no eigenvalue above 1 when D >= the absolute degrees less softness
    assert (torch.linalg.eigvalsh(normalised).abs() <= 2 + model.softness).all()
    point = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(point).square().sum(), point, create_graph=True)
    (bend,) = torch.autograd.grad(slope.square().sum(), point)
    assert torch.isfinite(slope).all()
    assert torch.isfinite(bend).all()


@pytest.mark.parametrize("self_loops", ["unit", "renormalised"])
def test_it_is_twice_differentiable_where_edges_are_zero(self_loops):
    model = graph_net(activation="softplus", self_loops=self_loops)
    x = edges(2)
    x[:, ::2] = 0
    assert torch.autograd.gradgradcheck(model, x.requires_grad_(), atol=1e-5)


def test_renaming_nodes_with_their_features_changes_nothing():
    model, x = graph_net(), edges(1)
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(3))
    rows, columns = torch.triu_indices(NODES, NODES, offset=1)
    renamed = model.adjacency(x)[:, order][:, :, order][:, rows, columns]
    expected = model(x)
    with torch.no_grad():
        model.first.weight.copy_(model.first.weight[:, order].clone())
    torch.testing.assert_close(model(renamed), expected, rtol=0, atol=1e-12)


def test_an_explanation_is_over_edges():
    model, x = graph_net(classes=2), edges(3)
    assert r2et.explainers.GradientTimesInput()(model, x).shape == (3, 15)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"nodes": 1}, "nodes=1"),
        ({"nodes": 2.0}, "nodes=2.0"),
        ({"classes": 0}, "classes=0"),
        ({"hidden": -3}, "hidden=-3"),
        ({"embedding": 0}, "embedding=0"),
        ({"softness": 0.0}, "softness=0.0"),
        ({"self_loops": "units"}, "unknown self_loops 'units': did you mean 'unit'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        models.GCN(**{"nodes": 4, **settings})


@pytest.mark.parametrize("shape", [(3, 14), (3, 6, 6), (15,)])
def test_bad_edges(shape):
    with pytest.raises(InputError, match=r"this GCN of 6 nodes takes inputs of shape \(N, 15\), got"):
        graph_net()(torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("heads", [{}, {"classes": 3}])
def test_it_is_pytorch_geometrics_where_no_edge_is_negative(heads):
    """The same weights in torch_geometric's GCNConv, on sparse edges, give the same embedding of each graph."""
    model, x = graph_net(self_loops="renormalised", softness=1e-12, **heads), edges().abs()
    layers = []
    for ours in (model.first, model.second):
        layer = GCNConv(ours.in_features, ours.out_features).double()
        layer.lin.weight.data.copy_(ours.weight)
        layer.bias.data.copy_(ours.bias)
        layers.append(layer)
    expected = []
    for matrix in model.adjacency(x):
        index, weight = dense_to_sparse(matrix)
        hidden = layers[0](matrix, index, weight).relu()
        expected.append(layers[1](hidden, index, weight).mean(0))
    stacked = torch.stack(expected)
    wanted = model.head(stacked) if heads else stacked
    torch.testing.assert_close(model(x), wanted, rtol=1e-9, atol=1e-9)
