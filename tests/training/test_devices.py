"""One device needs torch alone, and trains what Lightning Fabric trains there."""

import subprocess
import sys
import textwrap

import pytest
import torch

from r2et.errors import InputError
from r2et.objectives import R2ET, CrossEntropy
from r2et.training import Retraining, Settings, fit, fitting
from r2et.training.devices import OneDevice, runtime
from tests.training.toy import net, problem, same, weights, without_seconds

ONE = {"accelerator": "cpu", "devices": 1, "strategy": "auto"}


def with_layers() -> torch.nn.Module:
    """Statistics that training moves, and a layer that draws random numbers."""
    first, *rest = net()
    return torch.nn.Sequential(first, torch.nn.BatchNorm1d(first.out_features), torch.nn.Dropout(0.3), *rest)


@pytest.mark.parametrize("make", [net, with_layers])
@pytest.mark.parametrize("objective", [CrossEntropy(), R2ET(k=2, curvature=0.1, scale_free=True)])
@pytest.mark.parametrize("retrained", [False, True])
def test_one_device_trains_bit_for_bit_what_fabric_trains(make, objective, retrained, monkeypatch):
    fabric = pytest.importorskip("lightning_fabric").Fabric
    parts = problem()
    torch.manual_seed(0)
    start = make().state_dict()

    def copy():
        model = make()
        model.load_state_dict(start)
        return model

    def trained():
        retraining = Retraining(copy(), k=2, min_precision=0.0, max_auc_drop=1.0) if retrained else None
        return fit(
            copy(),
            *parts,
            objective,
            settings=Settings(epochs=3, batch_size=16, accelerator="cpu"),
            retraining=retraining,
        )

    alone = trained()
    monkeypatch.setattr(fitting, "runtime", lambda **settings: fabric(**settings))
    theirs = trained()
    assert same(weights(alone.model), weights(theirs.model))
    assert not same(weights(alone.model), start)
    assert without_seconds(alone) == without_seconds(theirs)


def test_one_device_does_not_import_fabric():
    code = """
        import sys
        sys.modules["lightning_fabric"] = None
        import r2et
        from tests.training.toy import net, problem
        settings = r2et.training.Settings(epochs=1, accelerator="cpu")
        print(r2et.fit(net(), *problem(), settings=settings).stopped)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "epochs", done.stderr


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"devices": 2}, "accelerator='cpu', devices=2, strategy='auto'"),
        ({"strategy": "ddp"}, "accelerator='cpu', devices=1, strategy='ddp'"),
        ({"accelerator": "tpu"}, "accelerator='tpu', devices=1, strategy='auto'"),
    ],
)
def test_several_processes_say_what_to_install(change, asked, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(InputError, match=r"pip install 'r2et\[processes\]'") as error:
        runtime(**{**ONE, **change})
    assert f"training with {asked} needs Lightning Fabric" in str(error.value)


@pytest.mark.parametrize("change", [{"devices": "many"}, {"accelerator": "warp"}, {"strategy": "?"}])
def test_what_nobody_knows_is_refused(change):
    pytest.importorskip("lightning_fabric")
    ((name, value),) = change.items()
    with pytest.raises(InputError, match=f"{name}={value!r}".replace("?", r"\?")):
        runtime(**{**ONE, **change})


@pytest.mark.parametrize(
    ("accelerator", "there", "device"),
    [
        ("auto", (), "cpu"),
        ("auto", ("cuda",), "cuda:0"),
        ("auto", ("mps",), "mps:0"),
        ("cpu", ("cuda", "mps"), "cpu"),
        ("gpu", ("cuda",), "cuda:0"),
        ("gpu", ("mps",), "mps:0"),
        ("cuda", ("cuda",), "cuda:0"),
        ("mps", ("cuda", "mps"), "mps:0"),
    ],
)
def test_names_of_accelerators(accelerator, there, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in there)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in there)
    place = runtime(**ONE | {"accelerator": accelerator})
    assert isinstance(place, OneDevice)
    assert place.device == torch.device(device)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="accelerator='cuda'"):
        runtime(**ONE | {"accelerator": "cuda"})
