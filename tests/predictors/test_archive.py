"""A `.pt2` file runs no code and takes no more memory than it has, whatever is in it."""

import contextlib
import copy
import json
import pickle
import random
import warnings
import zipfile

import pytest
import torch
from torch import nn

import r2et
from r2et.predictors import load_program
from tests.predictors import nets
from tests.predictors.archives import CONSTANTS, MODEL, WEIGHTS, Bomb, altered, contents, write
from tests.predictors.memory import little_memory


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("programs") / "model.pt2"
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    nets.export(model, torch.randn(4, 5), path)
    return model, contents(path)


@pytest.fixture
def good(saved, tmp_path):
    return write(tmp_path / "good.pt2", saved[1].items())


def refused(path, words) -> None:
    with pytest.raises(r2et.errors.InputError, match=words) as caught:
        load_program(path)
    assert path.name in str(caught.value)


def runs_nothing(path, words) -> None:
    """A file that would make another beside itself, called ran."""
    with contextlib.suppress(Exception):
        load_program(path)
    assert not path.with_name("ran").exists()
    refused(path, words)


def torch_reads(path) -> None:
    """torch's own reader, which may fail after it ran what is in the file."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        torch.export.load(str(path))


def test_the_archive_that_the_attacks_alter_is_a_good_one(saved, good):
    x = torch.randn(7, 5)
    assert torch.equal(load_program(good)(x), saved[0](x))


# --- code -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", ["OPAQUE_OBJ_0", "opaque_obj_0/x", "opaque_obj_0", "Custom_Obj_0"])
def test_a_pickled_constant_does_not_run_under_any_name(good, tmp_path, stored):
    record = "opaque_obj_0/x" if "/" in stored else "opaque_obj_0"
    meta = {"path_name": record, "is_param": False, "use_pickle": True, "tensor_meta": None}
    path = altered(good, CONSTANTS, lambda document: document["config"].update(secret=meta))
    bomb = pickle.dumps(Bomb(tmp_path / "ran"))
    write(path, {**contents(path), f"data/constants/{stored}": bomb}.items())
    runs_nothing(path, "pickled objects")
    if "paque" in stored.lower():
        # the bomb works
        torch_reads(path)
        assert (tmp_path / "ran").exists()


def test_the_formula_of_a_size_is_not_evaluated(good, tmp_path):
    code = f"__import__('pathlib').Path('{tmp_path / 'ran'}').touch() or 3"

    def change(document):
        (meta,) = (
            value
            for value in document["graph_module"]["graph"]["tensor_values"].values()
            if value["sizes"][0].get("as_expr") and value["sizes"][1] == {"as_int": 5}
        )
        meta["sizes"][0]["as_expr"]["expr_str"] = code

    path = altered(good, MODEL, change)
    runs_nothing(path, "not a formula of sizes")
    torch_reads(path)
    assert (tmp_path / "ran").exists()


def test_weights_marked_as_pickles_are_refused(good, tmp_path):
    def change(document):
        document["config"]["0.weight"]["use_pickle"] = True

    path = altered(good, WEIGHTS, change)
    bomb = pickle.dumps(Bomb(tmp_path / "ran"))
    write(path, {**contents(path), "data/weights/weight_0": bomb}.items())
    runs_nothing(path, "is a pickle")


@pytest.mark.parametrize(
    "target",
    [
        "torch.ops.aten.save.default",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.set_.source_Tensor",
        "torch.ops.aten.resize_.default",
        "torch.ops.aten.manual_seed.default",
        "torch.ops.aten.view.dtype",
        "torch.ops.aten.relu.out",
        "torch.ops.aten.add.str",
        "torch.ops.aten.relu.__class__",
        "torch.ops.aten.relu",
        "torch.ops.higher_order.cond",
        "torch.ops.profiler._record_function_enter.default",
        "torch.hub.load",
        "_operator.getitem",
        "builtins.eval",
        "",
    ],
)
def test_operators_that_networks_are_not_made_of_are_refused(good, target):
    def change(document):
        document["graph_module"]["graph"]["nodes"][1]["target"] = target

    refused(altered(good, MODEL, change), "not an operator of torch")


NAMES = ["import", "self", "torch", "a\nb", "x'); exit(('", "", "__class__", "\uff41", "print", "n" * 10**4]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
@pytest.mark.parametrize("value", ["relu", "input"])
def test_names_of_values_do_not_become_code(saved, good, name, value):
    x = torch.randn(3, 5)
    program = load_program(altered(good, MODEL, lambda document: rename(document, value, name)))
    assert torch.equal(program(x), saved[0](x))


def rename(item, old: str, new: str) -> None:
    """The name of a value, wherever the graph has it; arguments of operators keep theirs."""
    for part in item if isinstance(item, list) else item.values() if isinstance(item, dict) else ():
        rename(part, old, new)
    if isinstance(item, dict) and item.get("name") == old and "arg" not in item:
        item["name"] = new
    if isinstance(item, dict) and "sizes" in (item.get(old) or ()):
        item[new] = item.pop(old)


MODULES = [
    "import",
    "a.class",
    "a-b",
    "a']; exit([",
    "a\nb",
    "__class__",
    "a.training",
    "forward",
    "a..b",
    "\u00b2",
]


@pytest.mark.parametrize("path", MODULES, ids=ascii)
def test_names_of_modules_do_not_become_code(saved, good, path):
    def change(document):
        for node in document["graph_module"]["graph"]["nodes"]:
            stack = node["metadata"]["nn_module_stack"].rsplit(",", 2)
            node["metadata"]["nn_module_stack"] = f"{stack[0]},{path},{stack[2]}"

    x = torch.randn(3, 5)
    program = load_program(altered(good, MODEL, change))
    assert torch.equal(program(x), saved[0](x))
    assert path not in dict(program.named_modules())


def test_a_module_with_a_keyword_as_its_name(tmp_path):
    x = torch.randn(4, 5)
    holder = nets.Choice({"class": nn.Linear(5, 3), "a-b": nn.Linear(3, 2)})
    nets.export(holder, x, tmp_path / "model.pt2")
    assert torch.equal(load_program(tmp_path / "model.pt2")(x), holder(x))
    program = torch.export.export(holder, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    with pytest.raises(r2et.errors.ModelError, match="keyword"):
        r2et.predictors.Program(program)


# --- records --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "models/other.json",
        "models/modelxjson",
        "models/model.json/x",
        "models/../models/model.json",
        "models/",
        "../model/models/model.json",
        "/model/models/model.json",
        "data/weights/model.pt",
        "data/constants/model.pt",
        "data/weights/weight_00",
        "data/weights/weight_1\n",
        "data/weights/Weight_9",
        "data/aotinductor/model/model.so",
        "serialized_exported_program.json",
        "extra/../x",
        "Models/model.json",
    ],
)
def test_a_record_that_torch_does_not_write_is_refused(saved, tmp_path, name):
    refused(write(tmp_path / "more.pt2", [*saved[1].items(), (name, b"{}")]), "pickled objects")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", [MODEL, "data/weights/weight_0"])
def test_a_record_that_is_there_twice_is_refused(saved, tmp_path, name):
    refused(write(tmp_path / "twice.pt2", [*saved[1].items(), (name, saved[1][name])]), "twice")
    extras = [*saved[1].items(), ("extra/a", b""), ("extra/A", b"")]
    refused(write(tmp_path / "case.pt2", extras), "twice")


def test_extra_files_of_torch_are_not_in_the_way(saved, tmp_path):
    more, less = (
        load_program(write(tmp_path / f"{len(extra)}.pt2", [*saved[1].items(), *extra]))
        for extra in ([("extra/notes.txt", b"by me")], [])
    )
    x = torch.randn(4, *less.input_shape)
    assert torch.equal(more(x), less(x))


@pytest.mark.parametrize("name", [MODEL, WEIGHTS, CONSTANTS, "archive_format", "data/weights/weight_0"])
def test_a_record_that_is_missing_is_named(saved, tmp_path, name):
    rest = [(other, content) for other, content in saved[1].items() if other != name]
    refused(write(tmp_path / "less.pt2", rest), f"no record '{name}'")


@pytest.mark.parametrize("name", ["archive_format", "archive_version", "byteorder"])
def test_another_format_is_refused(saved, tmp_path, name):
    refused(write(tmp_path / "other.pt2", {**saved[1], name: b"big"}.items()), name)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"[" * 10**5, b'{"a": ' * 10**5, b"\xff", b"1" * 10**4])
@pytest.mark.parametrize("name", [MODEL, WEIGHTS])
def test_json_that_is_none(saved, tmp_path, name, content):
    refused(write(tmp_path / "json.pt2", {**saved[1], name: content}.items()), "JSON")


def test_a_broken_archive(saved, good, tmp_path):
    whole = good.read_bytes()
    for part in (whole[:-30], whole[: len(whole) // 2], whole[200:], b"PK\5\6" + b"\0" * 18):
        (tmp_path / "part.pt2").write_bytes(part)
        refused(tmp_path / "part.pt2", "cannot be read")


# --- sizes ----------------------------------------------------------------------------------------------------


def sized(**fields):
    """Another description of the first weight."""

    def change(document):
        meta = document["config"]["0.weight"]["tensor_meta"]
        for key, value in fields.items():
            meta[key] = [{"as_int": size} for size in value] if isinstance(value, list) else value

    return change


HUGE = {
    "long": {"sizes": [2**29, 1], "strides": [1, 1]},
    "repeated": {"sizes": [2**29, 1], "strides": [0, 0]},
    "overflowing": {"sizes": [2**62, 2**62], "strides": [1, 1]},
    "overflowing but empty": {"sizes": [0, 2**62], "strides": [2**62, 2**62]},
    "one number beyond": {"sizes": [4, 5], "strides": [5, 1], "storage_offset": {"as_int": 1}},
    "far strides": {"sizes": [4, 5], "strides": [2**62, 1]},
    "far offset": {"storage_offset": {"as_int": 2**62}},
    "wider numbers": {"dtype": 8},
    "negative": {"sizes": [-4, -5]},
    "negative strides": {"strides": [-5, 1]},
    "negative offset": {"storage_offset": {"as_int": -1}},
    "beyond 64 bits": {"sizes": [2**64, 0]},
    "many dimensions": {"sizes": [1] * 1000, "strides": [1] * 1000},
    "too few strides": {"strides": [1]},
    "a flag": {"sizes": [True, 5]},
    "a fraction": {"sizes": [4.0, 5]},
    "a formula": {"storage_offset": {"as_expr": {"expr_str": "3", "hint": None}}},
    "sparse": {"layout": 1},
    "no such type": {"dtype": 99},
}


@pytest.mark.parametrize("fields", HUGE.values(), ids=HUGE)
def test_a_tensor_that_is_not_what_is_stored(good, fields):
    with little_memory():
        refused(altered(good, WEIGHTS, sized(**fields)), r"tensor|whole number")


def test_an_empty_record_with_a_size(good):
    path = altered(good, WEIGHTS, sized(sizes=[30000, 30000], strides=[30000, 1]))
    with little_memory():
        refused(write(path, {**contents(path), "data/weights/weight_0": b""}.items()), "longer than its record")


def test_a_compressed_record_is_not_inflated(saved, tmp_path):
    rest = {name: content for name, content in saved[1].items() if name != "data/weights/weight_0"}
    path = write(tmp_path / "bomb.pt2", rest.items())
    bomb = zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1)
    with bomb as archive, archive.open("model/data/weights/weight_0", "w") as record:
        for _ in range(32):
            record.write(bytes(2**23))
    assert path.stat().st_size < 2**21
    with little_memory():
        refused(path, "compressed")


def test_records_that_share_their_bytes_are_refused(good):
    """Two names of one record, as a bomb without compression has them."""
    with zipfile.ZipFile(good, "a") as archive:
        for number in range(2):
            shared = copy.copy(max(archive.infolist(), key=lambda record: record.file_size))
            shared.filename = f"model/extra/{number}"
            archive.filelist.append(shared)
        archive._didModify = True
    refused(good, "overlap")


def test_a_long_json_is_not_parsed(saved, tmp_path):
    path = write(tmp_path / "long.pt2", {**saved[1], MODEL: b"[" + b"{}," * 10**7 + b"{}]"}.items())
    with little_memory():
        refused(path, "longer than")


def test_calls_with_very_many_arguments_are_refused(good):
    def change(document):
        node = copy.deepcopy(document["graph_module"]["graph"]["nodes"][1])
        node["inputs"][0]["arg"] = {"as_ints": [1] * 300_000}
        document["graph_module"]["graph"]["nodes"].insert(1, node)

    refused(altered(good, MODEL, change), "200000 arguments")


def test_very_many_calls_are_refused(good):
    def change(document):
        nodes = document["graph_module"]["graph"]["nodes"]
        for number in range(10_001):
            node = copy.deepcopy(nodes[1])
            node["outputs"][0]["as_tensor"]["name"] = f"more_{number}"
            nodes.append({**node, "metadata": {}, "name": None})

    refused(altered(good, MODEL, change), "10000 calls")


def test_a_deep_path_makes_no_deep_module(saved, good):
    def change(document):
        metadata = document["graph_module"]["graph"]["nodes"][1]["metadata"]
        metadata["nn_module_stack"] = f"key,{'.'.join('a' * 10**5)},torch.nn.modules.activation.ReLU"

    x = torch.randn(3, 5)
    program = load_program(altered(good, MODEL, change))
    assert len(list(program.modules())) == 4
    assert torch.equal(program(x), saved[0](x))


def test_truth_values_are_0_or_1(tmp_path):
    """Bytes that are neither would make kernels that count them write out of bounds."""
    mask = nets.Masked()
    x = torch.randn(3, 5)
    nets.export(mask, x, tmp_path / "mask.pt2")
    records = contents(tmp_path / "mask.pt2")
    (name,) = (name for name, content in records.items() if content == bytes([1, 0, 1, 1, 0]))
    program = load_program(write(tmp_path / "odd.pt2", {**records, name: bytes([255, 0, 7, 2, 0])}.items()))
    (stored,) = (value for value in program.buffers() if value.dtype is torch.bool)
    assert stored.sum() == stored.view(torch.uint8).sum() == 3
    assert torch.equal(program(x), mask(x))


# --- anything -------------------------------------------------------------------------------------------------

HOSTILE = [
    None, True, -1, 0, 3, 2**31, 2**63, 10**400, 1.5, float("nan"), "", "NaN", "a\nb", "import", "exit()",
    "torch.ops.aten.save.default", "x" * 5000, [], [[]], [None], {}, {"as_int": 2**62}, {"as_string": "/tmp"},
    {"as_tensor": {"name": "relu"}}, {"as_expr": {"expr_str": "().__class__", "hint": None}}, {"name": "input"},
    {"as_custom_obj": {"name": "a"}}, {"as_graph": {"name": "g", "graph": {}}}, {"as_ints": [0, -1]},
    {"as_operator": "os.system"},
]  # fmt: skip


def places(item) -> list:
    """Every container of a JSON document with each of its keys."""
    keys = list(item) if isinstance(item, dict) else list(range(len(item))) if isinstance(item, list) else []
    return [(item, key) for key in keys] + [place for key in keys for place in places(item[key])]


@pytest.mark.parametrize("record", [MODEL, WEIGHTS, CONSTANTS])
def test_any_change_of_a_document_loads_or_is_refused_in_a_sentence(saved, tmp_path, record):
    """Hundreds of files, each with one or two hostile values in the place of good ones."""
    chance, outcomes, lengths = random.Random(0), set(), []
    for _ in range(250 if record == MODEL else 60):
        document = json.loads(saved[1][record])
        for _ in range(chance.choice([1, 1, 2])):
            holder, key = chance.choice(places(document) or [(document, "config")])
            holder[key] = copy.deepcopy(chance.choice(HOSTILE))
        path = write(tmp_path / "fuzzed.pt2", {**saved[1], record: json.dumps(document).encode()}.items())
        try:
            outcomes.add(type(load_program(path)))
        except r2et.errors.InputError as error:
            outcomes.add(type(error))
            lengths.append(len(str(error)))
    assert r2et.errors.InputError in outcomes
    assert max(lengths) < 1500


def test_any_change_of_bytes_loads_or_is_refused_in_a_sentence(good, tmp_path):
    chance, whole = random.Random(0), good.read_bytes()
    refusals = 0
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 4, 30])):
            # the directory at the end is a small part of the file
            place = chance.choice([chance.randrange(len(whole)), chance.randrange(len(whole) - 2000, len(whole))])
            content[place] = chance.randrange(256)
        (tmp_path / "flipped.pt2").write_bytes(content)
        try:
            load_program(tmp_path / "flipped.pt2")
        except r2et.errors.InputError:
            refusals += 1
    assert refusals > 75


# --- what must still load -------------------------------------------------------------------------------------

MODELS = {
    "CNN": (lambda: r2et.models.CNN(1, 10, 3), (4, 1, 10, 10)),
    "ResNet": (lambda: r2et.models.ResNet(3, 4, blocks=1), (2, 3, 16, 16)),
    "many kinds of calls": (nets.Assorted, (4, 5)),
    "LSTM": (lambda: nets.Last(nn.LSTM(3, 4, batch_first=True)), (3, 6, 3)),
    "bare norms": (lambda: nn.Sequential(nn.LayerNorm(5, elementwise_affine=False), nn.Linear(5, 2)), (4, 5)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_give_their_numbers(tmp_path, name):
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model, x = make().eval(), torch.randn(*shape)
    nets.export(model, x, tmp_path / "model.pt2")
    program = load_program(tmp_path / "model.pt2")
    assert torch.equal(program(x), model(x))
    assert torch.equal(program(x[:1]), model(x[:1]))


def test_weights_that_are_shared_stay_one_parameter(tmp_path):
    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
    model[2].weight = model[0].weight
    nets.export(model, torch.randn(4, 5), tmp_path / "tied.pt2")
    program = load_program(tmp_path / "tied.pt2")
    assert len(list(program.parameters())) == len(list(model.parameters())) == 3
