import itertools
import json
import os
import pickle
import stat
from pathlib import Path

import pytest
import torch
from torch import nn

from r2et import models, validate
from r2et.checkpoints import load_model, save_model
from r2et.checkpoints import models as checkpoints
from r2et.errors import CheckpointError, InputError
from tests.training.toy import same, weights


def model(seed: int = 0, dtype: torch.dtype = torch.float32) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return models.MLP(4, 3, hidden=(6, 5), activation="tanh").to(dtype)


def tensor_file(folder: Path, name: str = "checkpoint") -> Path:
    (found,) = folder.glob(f"{name}-*.safetensors")
    return found


def rewrite(folder: Path, **changes: object) -> None:
    """Change fields of the JSON file of a checkpoint."""
    path = folder / "checkpoint.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip_is_bit_exact(tmp_path, dtype):
    saved = model(dtype=dtype)
    path = save_model(saved, tmp_path / "a" / "b", data="mine", settings={"gap": 0.1})
    found, information = load_model(tmp_path / "a" / "b")
    assert {name: value.dtype for name, value in found.state_dict().items()} == {
        name: value.dtype for name, value in saved.state_dict().items()
    }
    assert same(weights(found), weights(saved))
    assert information == {"data": "mine", "settings": {"gap": 0.1}}
    assert not found.training
    assert type(found) is type(saved)
    assert same(weights(load_model(path)[0]), weights(saved)), "the path of the JSON file works as well"


def test_a_loaded_model_computes_the_same(tmp_path):
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(1))
    for number, saved in enumerate([model(), models.Linear(4, 2), models.MLP(4, 2, activation="gelu")]):
        save_model(saved, tmp_path / str(number))
        assert torch.equal(load_model(tmp_path / str(number))[0](x), saved(x))


def test_saving_again_replaces_and_removes_the_old_tensors(tmp_path):
    save_model(model(0), tmp_path)
    first = tensor_file(tmp_path)
    save_model(model(1), tmp_path)
    assert tensor_file(tmp_path) != first
    assert {p.name for p in tmp_path.iterdir()} == {"checkpoint.json", tensor_file(tmp_path).name}
    assert same(weights(load_model(tmp_path)[0]), weights(model(1)))


def test_saving_removes_nobody_elses_files(tmp_path):
    others = [tmp_path / "checkpoint-best.safetensors", tmp_path / "training-abc.txt", tmp_path / "notes.json"]
    for other in others:
        other.write_text("mine")
    save_model(model(), tmp_path)
    assert [other.exists() for other in others] == [True] * 3


def test_a_crash_before_the_json_file_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    save_model(model(0), tmp_path, run=0)
    real = checkpoints.write_bytes

    def crash(path: Path, content: bytes) -> None:
        if path.suffix == ".json":
            raise KeyboardInterrupt
        real(path, content)

    monkeypatch.setattr(checkpoints, "write_bytes", crash)
    with pytest.raises(KeyboardInterrupt):
        save_model(model(1), tmp_path, run=1)
    found, information = load_model(tmp_path)
    assert information == {"run": 0}
    assert same(weights(found), weights(model(0)))
    monkeypatch.undo()
    save_model(model(2), tmp_path, run=2)
    assert tensor_file(tmp_path), "one tensor file: that of the crash is gone"
    assert load_model(tmp_path)[1] == {"run": 2}


@pytest.mark.parametrize("file", [1, 2], ids=["tensors", "json"])
def test_a_full_disk_leaves_the_old_checkpoint(tmp_path, monkeypatch, file):
    save_model(model(0), tmp_path, run=0)
    before = sorted(tmp_path.iterdir())

    calls = itertools.count(1)
    real = os.fsync

    def disk_full(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(calls) == file:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(CheckpointError, match=r"cannot write a checkpoint to '[^']*': No space left on device$"):
        save_model(model(1), tmp_path, run=1)
    found, information = load_model(tmp_path)
    assert information == {"run": 0}
    assert same(weights(found), weights(model(0)))
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".tmp"]
    assert set(before) <= set(tmp_path.iterdir())


def test_information_that_is_not_json_leaves_nothing_behind(tmp_path):
    with pytest.raises((InputError, TypeError)):
        save_model(model(), tmp_path / "new", thing=object())
    left = list((tmp_path / "new").iterdir()) if (tmp_path / "new").exists() else []
    assert left == []


@pytest.mark.parametrize("size", [0, 1, 7, 100, -1])
def test_a_truncated_tensor_file(tmp_path, size):
    save_model(model(), tmp_path)
    blob = tensor_file(tmp_path).read_bytes()
    tensor_file(tmp_path).write_bytes(blob[:size])
    with pytest.raises(CheckpointError, match="truncated or was changed") as caught:
        load_model(tmp_path)
    assert str(tensor_file(tmp_path)) in str(caught.value)


def test_one_changed_byte(tmp_path):
    save_model(model(), tmp_path)
    path = tensor_file(tmp_path)
    blob = bytearray(path.read_bytes())
    blob[-3] ^= 1
    path.write_bytes(bytes(blob))
    with pytest.raises(CheckpointError, match="checksum"):
        load_model(tmp_path)


def test_a_missing_tensor_file(tmp_path):
    save_model(model(), tmp_path)
    tensor_file(tmp_path).unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"3", b"null", b'"text"', b"{}", b'{"format": "other"}', b"\xff\xfe\x00", b"[" * 100_000],
    ids=["empty", "cut", "list", "number", "null", "string", "no format", "other format", "binary", "deep"],
)
def test_a_foreign_json_file(tmp_path, content):
    (tmp_path / "checkpoint.json").write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        load_model(tmp_path)
    assert str(tmp_path / "checkpoint.json") in str(caught.value)


def test_a_truncated_json_file(tmp_path):
    path = save_model(model(), tmp_path)
    text = path.read_bytes()
    for size in (0, 1, len(text) // 2, len(text) - 3):
        path.write_bytes(text[:size])
        with pytest.raises(CheckpointError):
            load_model(tmp_path)


@pytest.mark.parametrize("version", [2, 0, None, "1"])
def test_another_version(tmp_path, version):
    save_model(model(), tmp_path)
    rewrite(tmp_path, version=version)
    with pytest.raises(CheckpointError, match="version"):
        load_model(tmp_path)


def test_another_kind(tmp_path):
    save_model(model(), tmp_path)
    rewrite(tmp_path, kind="training")
    with pytest.raises(CheckpointError, match=r"'training', not a model"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["missing", "missing/deeper", "missing/checkpoint.json"])
def test_a_missing_folder(tmp_path, name):
    with pytest.raises(CheckpointError, match="there is no checkpoint at") as caught:
        load_model(tmp_path / name)
    assert name in str(caught.value)
    assert list(tmp_path.iterdir()) == []


class Bomb:
    ran = False

    def __reduce__(self):
        return (setattr, (Bomb, "ran", True))


def test_a_pickle_is_refused_and_never_run(tmp_path):
    payload = pickle.dumps(Bomb())
    (tmp_path / "model.pt").write_bytes(payload)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "checkpoint.json").write_bytes(payload)
    save_model(model(), tmp_path / "mixed")
    stolen = tensor_file(tmp_path / "mixed")
    stolen.write_bytes(payload)
    digest = checkpoints.hashlib.sha256(payload).hexdigest()
    rewrite(tmp_path / "mixed", tensors={"file": stolen.name, "sha256": digest})
    for place in ("model.pt", "folder", "mixed"):
        with pytest.raises(CheckpointError):
            load_model(tmp_path / place)
    assert not Bomb.ran
    pickle.loads(payload)
    assert Bomb.ran, "the bomb works, so the check above means something"
    Bomb.ran = False


@pytest.mark.parametrize("form", ["../outside/{}", "{absolute}"])
def test_a_tensor_file_outside_of_the_folder_is_not_read(tmp_path, form):
    save_model(model(), tmp_path / "inside")
    (tmp_path / "outside").mkdir()
    moved = tmp_path / "outside" / tensor_file(tmp_path / "inside").name
    record = json.loads((tmp_path / "inside" / "checkpoint.json").read_text())
    tensor_file(tmp_path / "inside").rename(moved)
    name = form.format(moved.name, absolute=moved)
    rewrite(tmp_path / "inside", tensors={**record["tensors"], "file": name})
    with pytest.raises(CheckpointError):
        load_model(tmp_path / "inside")


@pytest.mark.parametrize("tensors", [None, [], {}, {"file": 3, "sha256": "x"}, {"file": "..", "sha256": "x"}])
def test_a_wrong_tensor_entry(tmp_path, tensors):
    save_model(model(), tmp_path)
    rewrite(tmp_path, tensors=tensors)
    with pytest.raises(CheckpointError):
        load_model(tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for name in ("file", "file/deeper"):
        with pytest.raises(CheckpointError, match="cannot write a checkpoint to") as caught:
            save_model(model(), tmp_path / name)
        assert name in str(caught.value)
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize(
    "architecture",
    [
        {"name": "mlp", "features": 5, "classes": 3, "hidden": [6, 5], "activation": "tanh"},
        {"name": "mlp", "features": 4, "classes": 3, "hidden": [6], "activation": "tanh"},
        {"name": "linear", "features": 4, "classes": 3},
        {"name": "unknown"},
        {"name": "mlp"},
        {"name": "mlp", "features": 4, "classes": 3, "hidden": 6},
        {"name": "mlp", "features": -4, "classes": 3},
        {"name": "mlp", "features": "4", "classes": 3},
        {"name": "mlp", "features": 4, "classes": 3, "hidden": [6, 5], "colour": "red"},
        {},
        [],
        None,
        "mlp",
    ],
    ids=str,
)
def test_an_architecture_that_does_not_fit(tmp_path, architecture):
    save_model(model(), tmp_path)
    rewrite(tmp_path, architecture=architecture)
    with pytest.raises(CheckpointError, match=r"do not fit their architecture|architecture should be an object"):
        load_model(tmp_path)


@pytest.mark.parametrize("foreign", [nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2)), nn.Identity()])
def test_a_model_of_somebody_else_is_refused(tmp_path, foreign):
    with pytest.raises(InputError, match=type(foreign).__name__):
        save_model(foreign, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_smooth_copy_comes_back_smooth(tmp_path):
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(2))
    sharp = models.MLP(4, 2, hidden=(6, 6))
    smooth = validate.smooth(sharp, beta=3.0)
    save_model(smooth, tmp_path)
    found = load_model(tmp_path)[0]
    assert torch.equal(found(x), smooth(x))
    assert not torch.equal(found(x), sharp(x))
    assert [layer.beta for layer in found.modules() if isinstance(layer, nn.Softplus)] == [3.0, 3.0]


def test_fingerprints_differ_by_value_shape_and_dtype():
    x = torch.arange(6.0).reshape(2, 3)
    changed = x.clone()
    changed[1, 2] += 1e-6
    all_of_them = [(x,), (changed,), (x.reshape(3, 2),), (x.double(),), (x, x), (x.t(),)]
    assert len({checkpoints.fingerprint(*tensors) for tensors in all_of_them}) == len(all_of_them)
    assert checkpoints.fingerprint(x) == checkpoints.fingerprint(x.clone())


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.RMSprop(p, lr=0.1),
        lambda p: torch.optim.NAdam(p, lr=0.1),
    ],
    ids=["adam", "sgd", "momentum", "rmsprop", "nadam"],
)
def test_optimisers_are_taken_apart_and_put_together_through_json(tmp_path, make):
    def steps(net: nn.Module, optimiser: torch.optim.Optimizer, count: int) -> None:
        for _ in range(count):
            optimiser.zero_grad()
            net(torch.ones(3, 4)).square().sum().backward()
            optimiser.step()

    straight, halfway = model(), model()
    first = make(straight.parameters())
    steps(straight, first, 5)
    second = make(halfway.parameters())
    steps(halfway, second, 2)
    tensors, rest = checkpoints.flatten_optimiser(second.state_dict())
    checkpoints.write(tmp_path, "state", {"rest": rest}, tensors)
    record, read = checkpoints.read(tmp_path / "state.json")
    third = make(halfway.parameters())
    third.load_state_dict(checkpoints.restore_optimiser(read, record["rest"]))
    steps(halfway, third, 3)
    assert same(weights(halfway), weights(straight))
