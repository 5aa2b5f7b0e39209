import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import r2et
from r2et import models
from r2et.errors import InputError, ModelError
from tests.models.table import CASES

PAIRS = ["siamese cnn", "siamese resnet", "siamese gcn"]


def cnn() -> models.CNN:
    torch.manual_seed(0)
    return models.CNN(1, 10, 6, filters=(2, 3), hidden=(5, 4))


def pairs(rows: int = 4) -> torch.Tensor:
    return torch.randn(rows, 2, 1, 10, 10, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_its_definition(name):
    model, x = CASES[name].model(), CASES[name].inputs()
    first, second = model.embedding(x[:, 0]), model.embedding(x[:, 1])
    similarity = F.cosine_similarity(first, second)
    torch.testing.assert_close(model.similarity(x), similarity, rtol=1e-4, atol=1e-6)
    weight, bias = model.classifier.weight, model.classifier.bias
    torch.testing.assert_close(model(x), model.similarity(x)[:, None] * weight.T + bias, rtol=0, atol=1e-12)
    assert weight.shape == (2, 1)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("training", [False, True])
def test_it_is_symmetric_also_in_training(name, training):
    model, x = CASES[name].model().train(training), CASES[name].inputs()
    torch.testing.assert_close(model(x.flip(1)), model(x), rtol=0, atol=1e-12)
    scores = CASES[name].explainer(model, x)
    torch.testing.assert_close(CASES[name].explainer(model, x.flip(1)), scores.flip(1), rtol=0, atol=1e-12)


def test_an_input_is_most_similar_to_itself_and_that_is_class_1():
    model, x = models.Siamese(cnn()).double(), pairs().double()
    same = torch.stack([x[:, 0], x[:, 0]], dim=1)
    torch.testing.assert_close(model.similarity(same), torch.ones(4).double(), rtol=0, atol=1e-3)
    assert (model(same).argmax(1) == 1).all()
    assert (model.similarity(same) > model.similarity(x)).all()


def test_the_cosine_has_derivatives_at_zero():
    torch.manual_seed(0)
    a = torch.randn(3, 4, dtype=torch.float64)
    b = torch.randn(3, 4, dtype=torch.float64)
    expected = F.cosine_similarity(a, b)
    torch.testing.assert_close(models.siamese.cosine_similarity(a, b), expected, rtol=1e-6, atol=0)
    for dtype in (torch.float32, torch.float64):
        first = torch.zeros(2, 4, dtype=dtype, requires_grad=True)
        second = torch.stack([torch.zeros(4), torch.ones(4)]).to(dtype).requires_grad_()
        value = models.siamese.cosine_similarity(first, second)
        assert torch.equal(value, torch.zeros(2, dtype=dtype))
        slopes = torch.autograd.grad(value.sum(), [first, second], create_graph=True)
        bends = torch.autograd.grad(sum(s.square().sum() for s in slopes), [first, second])
        for found in (*slopes, *bends):
            assert torch.isfinite(found).all()


def test_the_cosine_is_twice_differentiable():
    torch.manual_seed(0)
    a, b = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(models.siamese.cosine_similarity, (a, b))
    assert torch.autograd.gradgradcheck(models.siamese.cosine_similarity, (a, b))


def test_dead_embeddings_do_not_spoil_training():
    embedding = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    with torch.no_grad():
        embedding[0].bias.fill_(-100)
    model, x = models.Siamese(embedding), torch.randn(5, 2, 6)
    objective = r2et.objectives.R2ET(k=2, explainer=r2et.explainers.Gradient(inputs=2, score="probability"))
    objective(model, x, torch.tensor([0, 1, 0, 1, 1])).backward()
    for p in model.parameters():
        assert torch.isfinite(p.grad).all()


def test_activations_of_both_inputs():
    model, x = models.Siamese(cnn()), pairs()
    scores = r2et.explainers.Activation(layer="embedding", inputs=2)(model, x)
    torch.testing.assert_close(scores[:, 0], model.embedding(x[:, 0]))
    torch.testing.assert_close(scores[:, 1], model.embedding(x[:, 1]))
    deeper = r2et.explainers.Activation(layer=f"embedding.{models.CNN.penultimate}", inputs=2)(model, x)
    assert deeper.shape == (4, 2, 4)


def test_it_learns_pairs():
    torch.manual_seed(0)
    x = torch.randn(200, 2, 5)
    y = ((x[:, 0, 0] > 0) == (x[:, 1, 0] > 0)).long()
    model = models.Siamese(models.MLP(5, 4, hidden=(16,)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()
    assert (model(x).argmax(1) == y).float().mean() > 0.9


def test_a_single_input_classifier_is_linear_on_the_embedding():
    siamese = models.Siamese(cnn())
    model, x = models.SingleInput(siamese.embedding, width=6, classes=3), pairs()
    expected = siamese.embedding(x[:, 0]) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(x[:, 0]), expected)
    first, second = model.of_pairs(x)
    assert torch.equal(first, model(x[:, 0]))
    assert torch.equal(second, model(x[:, 1]))


@pytest.mark.parametrize("retrain", [False, True])
def test_training_a_single_input_classifier_leaves_the_siamese_net_alone(retrain):
    torch.manual_seed(0)
    siamese = models.Siamese(models.ResNet(1, None, widths=(3, 4), blocks=1))
    before = copy.deepcopy(siamese.state_dict())
    classifier = models.SingleInput(siamese.embedding, width=4, classes=2, retrain=retrain).train()
    embedded = copy.deepcopy(classifier.embedding.state_dict())
    x, y = torch.randn(6, 1, 8, 8), torch.tensor([0, 1, 0, 1, 0, 1])
    optimiser = torch.optim.SGD(classifier.parameters(), lr=0.1)
    F.cross_entropy(classifier(x), y).backward()
    optimiser.step()
    assert all(torch.equal(value, before[name]) for name, value in siamese.state_dict().items())
    assert all(p.requires_grad for p in siamese.parameters())
    after = classifier.embedding.state_dict()
    unchanged = all(torch.equal(value, embedded[name]) for name, value in after.items())
    assert unchanged is not retrain, "weights and BatchNorm statistics stay exactly when the embedding is frozen"


def test_a_constrained_attack_keeps_three_predictions():
    torch.manual_seed(1)
    siamese = models.Siamese(models.MLP(6, 5, hidden=(8,), activation="tanh")).double()
    classifier = models.SingleInput(siamese.embedding, width=5, classes=2).double()
    x = torch.randn(40, 2, 6, dtype=torch.float64)
    settings = {"k": 2, "radius": 2.0, "steps": 10, "explainer": r2et.explainers.Gradient(inputs=2)}
    free = r2et.attacks.ERAttack(**settings)(siamese, x).x
    bound = r2et.attacks.ERAttack(**settings, predictions=classifier.of_pairs)(siamese, x).x
    clean = torch.stack([logits.argmax(1) for logits in classifier.of_pairs(x)])
    assert any((now.argmax(1) != was).any() for now, was in zip(classifier.of_pairs(free), clean, strict=True))
    for now, was in zip(classifier.of_pairs(bound), clean, strict=True):
        assert torch.equal(now.argmax(1), was)
    assert torch.equal(siamese(bound).argmax(1), siamese(x).argmax(1))


def test_any_module_embeds_but_only_ours_are_described():
    model = models.Siamese(nn.Sequential(nn.Flatten(), nn.Linear(100, 5)))
    assert model(pairs()).shape == (4, 2)
    for found in (model, models.SingleInput(model.embedding, width=5, classes=2)):
        with pytest.raises(InputError, match="the embedding Sequential is not a model of"):
            _ = found.architecture


def test_an_architecture_in_an_architecture():
    model = models.create("siamese", embedding={"name": "gcn", "nodes": 4})
    assert isinstance(model.embedding, models.GCN)
    assert model.architecture["embedding"]["nodes"] == 4
    with pytest.raises(InputError, match=r"unknown model 'gnc': did you mean 'gcn'\?"):
        models.create("siamese", embedding={"name": "gnc", "nodes": 4})
    with pytest.raises(InputError, match="nodes=0"):
        models.create("siamese", embedding={"name": "gcn", "nodes": 0})


def test_a_changed_head_is_not_described():
    model = models.Siamese(cnn())
    model.classifier = nn.Linear(1, 2, bias=False)
    with pytest.raises(InputError, match="this Siamese was changed"):
        _ = model.architecture


@pytest.mark.parametrize("shape", [(4, 3, 1, 10, 10), (4, 2), (4, 1, 10, 10)])
def test_bad_pairs(shape):
    model = models.Siamese(cnn())
    message = rf"pairs of shape \(N, 2, \*features\), got {str(shape).replace('(', '[(]').replace(')', '[)]')}"
    with pytest.raises(InputError, match=message):
        model(torch.zeros(shape))
    with pytest.raises(InputError, match=message):
        models.SingleInput(model.embedding, width=6, classes=2).of_pairs(torch.zeros(shape))


def test_bad_settings():
    with pytest.raises(InputError, match="got 'cnn'"):
        models.Siamese("cnn")
    with pytest.raises(InputError, match=r"got \{'nodes': 4\}"):
        models.create("siamese", embedding={"nodes": 4})
    with pytest.raises(InputError, match="width=0"):
        models.SingleInput(cnn(), width=0, classes=2)
    with pytest.raises(InputError, match="classes='2'"):
        models.SingleInput(cnn(), width=6, classes="2")
    with pytest.raises(ModelError, match=r"must return \(M, e\), got \(8, 3, 8, 8\)"):
        models.Siamese(nn.Conv2d(1, 3, 3))(pairs())
