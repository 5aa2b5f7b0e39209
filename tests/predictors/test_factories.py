"""package.module:factory with weights."""

import sys
import textwrap

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import r2et
from r2et.predictors import load_from_factory
from r2et.predictors.factories import parse_arguments
from tests.predictors import nets

SOURCE = """
    import torch
    from torch import nn
    import own_helper

    def make(hidden=8, activation="relu"):
        kinds = {"relu": nn.ReLU, "tanh": nn.Tanh}
        return nn.Sequential(nn.Linear(5, hidden), kinds[activation](), nn.Linear(hidden, 2))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 5)
            self.second = nn.Linear(5, 5)
            self.second.weight = self.first.weight
            self.last = nn.Linear(5, 2)

        def forward(self, x):
            return self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))

        @classmethod
        def fresh(cls):
            return cls()

    def broken():
        raise KeyError("no such layer")

    def number():
        return 7

    CONSTANT = 7
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """A module of the user's in the current folder, gone afterwards."""
    (tmp_path / "own_models.py").write_text(textwrap.dedent(SOURCE))
    (tmp_path / "own_helper.py").write_text("")
    (tmp_path / "own_broken.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    assert sys.path == before
    for name in ("own_models", "own_helper", "own_broken"):
        sys.modules.pop(name, None)


def test_weights_are_loaded(tmp_path):
    torch.manual_seed(0)
    model, x = nets.mlp(), torch.randn(6, 5)
    save_model(model, str(tmp_path / "net.safetensors"))
    loaded = load_from_factory("own_models:make", tmp_path / "net.safetensors")
    assert torch.equal(loaded(x), model(x))
    assert not loaded.training
    assert not torch.equal(load_from_factory("own_models:make")(x), model(x)), (
        "without weights it is another model"
    )


def test_the_audit_is_the_module_s(tmp_path):
    torch.manual_seed(0)
    model, x = nets.mlp().eval(), torch.randn(20, 5)
    save_model(model, str(tmp_path / "net.safetensors"))
    y = (x[:, 0] > 0).long()
    options = {"k": 2, "radii": (0.5,), "budget": "fast", "steps": 3}
    loaded = load_from_factory("own_models:make", tmp_path / "net.safetensors")
    ours, theirs, fresh = (
        r2et.audit(net, x, y, **options).to_dict() for net in (loaded, model, load_from_factory("own_models:make"))
    )
    assert ours == theirs
    assert ours["attacks"] != fresh["attacks"]


def test_arguments_reach_the_factory():
    made = load_from_factory("own_models:make", arguments={"hidden": 3, "activation": "tanh"})
    assert made[0].out_features == 3
    assert isinstance(made[1], nn.Tanh)


def test_tied_weights_and_a_class_method(tmp_path):
    torch.manual_seed(0)
    model = load_from_factory("own_models:Tied.fresh")
    save_model(model, str(tmp_path / "tied.safetensors"))
    x = torch.randn(3, 5)
    assert torch.equal(load_from_factory("own_models:Tied", tmp_path / "tied.safetensors")(x), model(x))


def test_weights_in_float64_keep_their_precision(tmp_path):
    model, x = nets.mlp().double(), torch.randn(6, 5).double()
    save_model(model, str(tmp_path / "net.safetensors"))
    assert torch.equal(load_from_factory("own_models:make", tmp_path / "net.safetensors")(x), model(x))


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        (["hidden=32"], {"hidden": 32}),
        (["hidden=[3, 4]", "p=0.1"], {"hidden": [3, 4], "p": 0.1}),
        (["bias=false", "a=True", "b=None", "c=null"], {"bias": False, "a": True, "b": None, "c": None}),
        (["name=a=b"], {"name": "a=b"}),
    ],
)
def test_arguments_are_read(pairs, found):
    assert parse_arguments(pairs) == found


@pytest.mark.parametrize("pair", ["hidden", "=3", "hid den=3"])
def test_arguments_that_are_none(pair):
    with pytest.raises(r2et.errors.InputError, match="name=value"):
        parse_arguments([pair])


@pytest.mark.parametrize(
    ("source", "arguments", "words"),
    [
        ("no_such_module:make", {}, ["'no_such_module'", "cannot be imported", "current folder"]),
        ("own_broken:make", {}, ["own_broken", "ZeroDivisionError"]),
        ("own_models:mak", {}, ["'mak'", "did you mean 'make'?"]),
        ("own_models:CONSTANT", {}, ["is int, not a function"]),
        ("own_models:broken", {}, ["own_models:broken()", "KeyError", "no such layer"]),
        ("own_models:number", {}, ["returned int", "torch.nn.Module"]),
        ("own_models:make", {"width": 3}, ["width=3", "TypeError", "unexpected keyword"]),
    ],
)
def test_code_that_does_not_make_a_model(source, arguments, words):
    with pytest.raises(r2et.errors.InputError) as caught:
        load_from_factory(source, arguments=arguments)
    for word in words:
        assert word in str(caught.value)


def test_weights_that_do_not_fit(tmp_path):
    save_file({"0.weight": torch.zeros(8, 5), "extra": torch.zeros(1)}, tmp_path / "wrong.safetensors")
    with pytest.raises(r2et.errors.InputError, match=r"missing 0\.bias, 2\.bias, 2\.weight; unexpected extra"):
        load_from_factory("own_models:make", tmp_path / "wrong.safetensors")
    save_model(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), str(tmp_path / "shape.safetensors"))
    with pytest.raises(r2et.errors.InputError, match="do not fit"):
        load_from_factory("own_models:make", tmp_path / "shape.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(r2et.errors.InputError, match="do not fit"):
        load_from_factory("own_models:make", tmp_path / "text.safetensors")
    with pytest.raises(r2et.errors.InputError, match="there is no weights file"):
        load_from_factory("own_models:make", tmp_path / "none.safetensors")
    torch.save(nets.mlp().state_dict(), tmp_path / "net.pt")
    with pytest.raises(r2et.errors.InputError, match=r"is not a \.safetensors file.*save_model"):
        load_from_factory("own_models:make", tmp_path / "net.pt")
