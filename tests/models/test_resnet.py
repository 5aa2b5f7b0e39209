import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

import r2et
from r2et import models
from r2et.errors import InputError


def small(channels: int = 3, classes: int | None = 4, **settings) -> models.ResNet:
    torch.manual_seed(0)
    model = models.ResNet(channels, classes, **{"widths": (3, 5), "blocks": (1, 2), **settings}).double().eval()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.5, 2)
            nn.init.uniform_(layer.weight, 0.5, 2)
            nn.init.normal_(layer.bias)
    return model


def images(channels: int = 3, side: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, channels, side, side, generator=generator, dtype=torch.float64)


def by_hand(weights: dict[str, torch.Tensor], x: torch.Tensor, blocks: tuple[int, ...], stem: str) -> torch.Tensor:
    """The definition from the bare weights, by their torchvision names."""

    def conv(name: str, z: torch.Tensor, stride: int = 1) -> torch.Tensor:
        kernel = weights[f"{name}.weight"]
        return F.conv2d(z, kernel, stride=stride, padding=kernel.shape[-1] // 2)

    def norm(name: str, z: torch.Tensor) -> torch.Tensor:
        keys = ("running_mean", "running_var", "weight", "bias")
        mean, variance, scale, shift = (weights[f"{name}.{key}"][:, None, None] for key in keys)
        return (z - mean) / (variance + 1e-5).sqrt() * scale + shift

    x = norm("bn1", conv("conv1", x, 2 if stem == "large" else 1)).clamp(min=0)
    if stem == "large":
        x = F.max_pool2d(x, 3, stride=2, padding=1)
    for stage, count in enumerate(blocks, 1):
        for place in range(count):
            name, stride = f"layer{stage}.{place}", 2 if stage > 1 and place == 0 else 1
            inner = norm(f"{name}.bn1", conv(f"{name}.conv1", x, stride)).clamp(min=0)
            inner = norm(f"{name}.bn2", conv(f"{name}.conv2", inner))
            if f"{name}.downsample.0.weight" in weights:
                x = norm(f"{name}.downsample.1", conv(f"{name}.downsample.0", x, stride))
            x = (x + inner).clamp(min=0)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"]


@pytest.mark.parametrize("stem", ["small", "large"])
def test_a_resnet_is_its_formula(stem):
    model, x = small(stem=stem), images(side=17)
    torch.testing.assert_close(model(x), by_hand(model.state_dict(), x, (1, 2), stem), rtol=1e-10, atol=1e-10)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_numbers_of_parameters():
    with torch.device("meta"):
        assert parameters(models.ResNet(3, 10)) == 11_173_962
        assert parameters(models.ResNet(3, 1000, stem="large")) == 11_689_512
        assert parameters(models.ResNet(3, 10, widths=(16, 32, 64), blocks=3)) == 272_474


def torchvision_names() -> dict[str, tuple[int, ...]]:
    """Names and shapes of torchvision's resnet18, written out from its published layout."""
    shapes: dict[str, tuple[int, ...]] = {}

    def norm(name: str, width: int) -> None:
        for key in ("weight", "bias", "running_mean", "running_var"):
            shapes[f"{name}.{key}"] = (width,)
        shapes[f"{name}.num_batches_tracked"] = ()

    shapes["conv1.weight"] = (64, 3, 7, 7)
    norm("bn1", 64)
    before = 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for place in (0, 1):
            name = f"layer{stage}.{place}"
            shapes[f"{name}.conv1.weight"] = (width, before, 3, 3)
            norm(f"{name}.bn1", width)
            shapes[f"{name}.conv2.weight"] = (width, width, 3, 3)
            norm(f"{name}.bn2", width)
            if before != width:
                shapes[f"{name}.downsample.0.weight"] = (width, before, 1, 1)
                norm(f"{name}.downsample.1", width)
            before = width
    return shapes | {"fc.weight": (1000, 512), "fc.bias": (1000,)}


def test_names_and_shapes_are_torchvisions():
    with torch.device("meta"):
        state = models.ResNet(3, 1000, stem="large").state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == torchvision_names()
    assert list(state) == list(torchvision_names())


def test_full_size_shapes():
    with torch.device("meta"):
        assert models.ResNet(3, 10)(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
        assert models.ResNet(1, 2, stem="large")(torch.zeros(2, 1, 514, 771)).shape == (2, 2)
        assert models.ResNet(3, None)(torch.zeros(2, 3, 32, 32)).shape == (2, 512)


@pytest.mark.parametrize(("inputs", "layer"), [(1, "avgpool"), (2, "embedding.avgpool")])
def test_the_penultimate_layer_has_a_name(inputs, layer):
    assert layer.endswith(models.ResNet.penultimate)
    model = small() if inputs == 1 else models.Siamese(small(classes=None)).double().eval()
    x = images() if inputs == 1 else torch.stack([images(), -images()], dim=1)
    scores = r2et.explainers.Activation(layer=layer, inputs=inputs)(model, x)
    assert scores.shape == ((2, 5) if inputs == 1 else (2, 2, 5))
    if inputs == 1:
        torch.testing.assert_close(scores @ model.fc.weight.T + model.fc.bias, model(x))
    else:
        torch.testing.assert_close(scores[:, 1], model.embedding(-images()))


def test_the_concept_explanation_can_be_attacked_and_trained():
    model = small()
    explainer = r2et.explainers.Activation(layer="avgpool")
    result = r2et.attacks.ERAttack(k=2, radius=1.0, steps=3, explainer=explainer)(model, images())
    assert result.after.shape == (2, 5)
    r2et.objectives.R2ET(k=2, explainer=explainer)(model, images(), torch.tensor([0, 1])).backward()
    assert torch.isfinite(model.conv1.weight.grad).all()


def test_weights_load_by_name():
    donor, model = small(stem="large"), small(stem="large", activation="softplus")
    with torch.no_grad():
        for value in donor.state_dict().values():
            value.add_(1)
    assert model.load_weights(donor.state_dict()) == []
    assert all(torch.equal(value, donor.state_dict()[name]) for name, value in model.state_dict().items())


def test_another_number_of_classes_keeps_its_own_last_layer(tmp_path):
    donor = small(classes=7)
    given = {name: value.clone() for name, value in donor.state_dict().items()}
    save_file(given, tmp_path / "weights.safetensors")
    for source in (given, tmp_path / "weights.safetensors", str(tmp_path / "weights.safetensors")):
        model = small(classes=2)
        own = model.fc.weight.clone()
        nn.init.zeros_(model.conv1.weight)
        assert model.load_weights(source) == ["fc.weight", "fc.bias"]
        assert torch.equal(model.fc.weight, own)
        assert torch.equal(model.conv1.weight, donor.conv1.weight)
    assert given.keys() == donor.state_dict().keys(), "the caller's weights are not changed"
    embedding = small(classes=None)
    assert embedding.load_weights(given) == []
    assert torch.equal(embedding.conv1.weight, donor.conv1.weight)


def test_a_grey_image_gives_what_its_colour_copy_gave():
    donor, model = small(3), small(1)
    model.load_weights(donor.state_dict())
    grey = images(1)
    torch.testing.assert_close(model(grey), donor(grey.expand(-1, 3, -1, -1)), rtol=0, atol=1e-10)


def test_old_files_without_counters_load():
    given = {name: value for name, value in small().state_dict().items() if "num_batches" not in name}
    model = small()
    assert model.load_weights(given) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("layer2.1.conv1.weight"), r"1 names .* missing \(\['layer2.1.conv1.weight'\]\)"),
        (lambda w: w.update({"layer9.0.conv1.weight": torch.zeros(1)}), r"1 are unknown \(\['layer9.0.conv1"),
        (
            lambda w: w.update({"conv1.weight": torch.zeros(3, 3, 7, 7)}),
            r"'conv1.weight' have shape \(3, 3, 7, 7\)",
        ),
        (
            lambda w: w.update({"conv1.weight": torch.zeros(3, 1, 3, 3)}),
            r"'conv1.weight' have shape \(3, 1, 3, 3\)",
        ),
    ],
)
def test_weights_that_do_not_fit_change_nothing(change, message):
    given = {name: value + 1 for name, value in small().state_dict().items()}
    change(given)
    model = small()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(InputError, match=message):
        model.load_weights(given)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_files_that_are_no_weights(tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(b"not tensors")
    told = {"weights": "weights.safetensors' is not a readable safetensors file", "missing": "there is no file"}
    for name, message in told.items():
        with pytest.raises(InputError, match=message):
            small().load_weights(tmp_path / f"{name}.safetensors")


def test_a_replaced_last_layer_is_described():
    model = small()
    model.fc = nn.Linear(5, 9)
    assert models.create(**model.architecture).fc.out_features == 9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 0}, "channels=0"),
        ({"classes": 0}, "classes=0"),
        ({"widths": ()}, r"widths=\(\)"),
        ({"widths": 16}, "widths=16"),
        ({"widths": (4, -1)}, "widths=-1"),
        ({"widths": "16"}, "widths='16'"),
        ({"blocks": (2, 2, 2)}, r"blocks=\(2, 2, 2\)"),
        ({"blocks": 0}, "blocks=0"),
        ({"blocks": 1.5}, "blocks=1.5"),
        ({"stem": "big"}, "unknown stem 'big'"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        models.ResNet(**{"channels": 3, "classes": 2, "widths": (4, 5), **settings})


@pytest.mark.parametrize("shape", [(2, 1, 9, 9), (3, 9, 9)])
def test_bad_images(shape):
    with pytest.raises(InputError, match=r"this ResNet takes inputs of shape \(N, 3, height, width\), got \("):
        small()(torch.zeros(shape, dtype=torch.float64))
