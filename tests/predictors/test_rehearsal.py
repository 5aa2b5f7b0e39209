"""A program from a file takes no memory beyond a bound, and hands torch's kernels only what fits together."""

import copy

import pytest
import torch
from torch import fx, nn

import r2et
from r2et.predictors import load_program
from r2et.predictors.operators import operator_of
from r2et.predictors.rehearsal import rehearse
from tests.predictors import nets
from tests.predictors.archives import MODEL, altered, contents, write
from tests.predictors.memory import little_memory

aten = torch.ops.aten


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "good.pt2"
    nets.export(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 2)), torch.randn(4, 5), path)
    return path


def tensor(name):
    return {"as_tensor": {"name": name}}


def node(target, result, **arguments):
    """A call as a file has it; arguments are {kind: value}."""
    inputs = [{"name": name, "arg": value, "kind": 1} for name, value in arguments.items()]
    return {"target": f"torch.ops.aten.{target}", "inputs": inputs, "outputs": [tensor(result)], "metadata": {}}


def calling(good, tmp_path, *nodes):
    """A program that makes these calls before its own; `input` is its batch (N, 5)."""

    def change(document):
        graph = document["graph_module"]["graph"]
        graph["nodes"] = [*copy.deepcopy(list(nodes)), *graph["nodes"]]

    write(tmp_path / "good.pt2", contents(good).items())
    return altered(tmp_path / "good.pt2", MODEL, change)


INPUT = tensor("input")
ONE_ROW = node("select.int", "row", self=INPUT, dim={"as_int": 0}, index={"as_int": 0})
BOMBS = {
    "full": [node("full.default", "a", size={"as_ints": [10**6, 10**6]}, fill_value={"as_float": 1.0})],
    "several": [
        node("full.default", f"a{i}", size={"as_ints": [10**8]}, fill_value={"as_float": 1.0}) for i in range(9)
    ],
    "arange": [node("arange.default", "a", end={"as_int": 10**12})],
    "one that does not fit the allocator": [node("eye.default", "a", n={"as_int": 10**7})],
    "repeat": [node("repeat.default", "a", self=INPUT, repeats={"as_ints": [10**9, 1]})],
    "expand and clone": [
        ONE_ROW,
        node("expand.default", "a", self=tensor("row"), size={"as_ints": [2 * 10**9, 5]}),
        node("clone.default", "b", self=tensor("a")),
    ],
    "a view that takes none itself": [
        ONE_ROW,
        node("expand.default", "a", self=tensor("row"), size={"as_ints": [10**6, 10**6, 5]}),
        node("sum.default", "b", self=tensor("a")),
    ],
    "padding": [node("constant_pad_nd.default", "a", self=INPUT, pad={"as_ints": [0, 10**9]})],
    "doubling": [
        node("cat.default", f"a{i + 1}", tensors={"as_tensors": [{"name": f"a{i}" if i else "input"}] * 2})
        for i in range(40)
    ],
    "outer products": [
        node("flatten.using_ints", "flat", self=INPUT),
        node("repeat.default", "long", self=tensor("flat"), repeats={"as_ints": [10**4]}),
        node("outer.default", "a", self=tensor("long"), vec2=tensor("long")),
    ],
    "inside of one call": [
        node("flatten.using_ints", "flat", self=INPUT),
        node("repeat.default", "long", self=tensor("flat"), repeats={"as_ints": [10**4]}),
        node(
            "einsum.default",
            "a",
            equation={"as_string": "i,j,i,j->"},
            tensors={"as_tensors": [{"name": "long"}] * 4},
        ),
    ],
}


@pytest.mark.parametrize("calls", BOMBS.values(), ids=BOMBS)
def test_a_program_that_would_fill_the_memory_is_refused_before_it_runs(good, tmp_path, calls):
    program = load_program(calling(good, tmp_path, *calls))
    with little_memory(), pytest.raises(r2et.errors.ModelError, match="GB for a batch of shape") as caught:
        program(torch.randn(6, 5))
    assert "\n" not in str(caught.value)


def test_the_memory_is_counted_anew_for_another_batch(good, tmp_path):
    """Harmless for one row, not for many."""
    calls = [
        node("sym_size.int", "n", self=INPUT, dim={"as_int": 0}),
        *(
            node("full.default", f"a{i}", size={"as_sym_ints": [{"as_name": "n"}] * 3}, fill_value={"as_int": 1})
            for i in range(2)
        ),
    ]
    calls[0]["outputs"] = [{"as_sym_int": {"as_name": "n"}}]
    program = load_program(calling(good, tmp_path, *calls))
    assert program(torch.randn(2, 5)).shape == (2, 2)
    with little_memory(), pytest.raises(r2et.errors.ModelError, match=r"batch of shape \(900, 5\)"):
        program(torch.randn(900, 5))
    assert program(torch.randn(3, 5)).shape == (3, 2)


def test_sizes_that_are_squared_again_and_again_end_in_a_sentence(good, tmp_path):
    calls = [node("sym_size.int", "s0", self=INPUT, dim={"as_int": 0})]
    calls[0]["outputs"] = [{"as_sym_int": {"as_name": "s0"}}]
    for i in range(64):
        square = node(
            "", f"s{i + 1}", a={"as_sym_int": {"as_name": f"s{i}"}}, b={"as_sym_int": {"as_name": f"s{i}"}}
        )
        calls.append({**square, "target": "_operator.mul", "outputs": [{"as_sym_int": {"as_name": f"s{i + 1}"}}]})
    program = load_program(calling(good, tmp_path, *calls))
    with pytest.raises(r2et.errors.ModelError, match="which no tensor has"):
        program(torch.randn(6, 5))


# --- arguments of another kind than the operator takes ----------------------------------------------------------

CONFUSED = {
    "a number as the type of numbers": node("arange.default", "a", end={"as_int": 3}, dtype={"as_int": -1}),
    "a number as a layout": node("zeros.default", "a", size={"as_ints": [1]}, layout={"as_int": 99}),
    "a number as an order in memory": node("clone.default", "a", self=INPUT, memory_format={"as_int": 4}),
    "a type of numbers as a size": node("chunk.default", "a", self=INPUT, chunks={"as_scalar_type": 7}),
    "text as a number": node("leaky_relu.default", "a", self=INPUT, negative_slope={"as_string": "x"}),
    "a flag as an axis": node("cumsum.default", "a", self=INPUT, dim={"as_bool": True}),
    "fractions as sizes": node("full.default", "a", size={"as_floats": [1.5]}, fill_value={"as_int": 1}),
    "nothing as an axis": node("cumsum.default", "a", self=INPUT, dim={"as_none": True}),
    "a word as a list": node("full.default", "a", size={"as_string": "3"}, fill_value={"as_int": 1}),
    "a size beyond kernels": node("max_pool1d.default", "a", self=INPUT, kernel_size={"as_ints": [2**62]}),
    "a generator": node("rand.generator", "a", size={"as_ints": [1]}, generator={"as_int": 1}),
}  # fmt: skip


@pytest.mark.parametrize("call", CONFUSED.values(), ids=CONFUSED)
def test_arguments_of_another_kind_are_refused(good, tmp_path, call):
    with pytest.raises(r2et.errors.InputError, match=r"is given|it holds"):
        load_program(calling(good, tmp_path, call))


TRUSTING = [
    "_native_batch_norm_legit.default", "_scaled_dot_product_flash_attention_for_cpu.default", "lstm.data",
    "gru.data", "to.prim_dtype", "to.prim_Device", "grid_sampler.default", "grid_sampler_2d.default",
    "fft_fft2.default", "fft_fftn.default", "fft_irfft2.default",
]  # fmt: skip


@pytest.mark.parametrize("target", TRUSTING)
def test_operators_that_trust_their_arguments_are_not_called(target):
    with pytest.raises(r2et.errors.InputError, match="not an operator of torch"):
        operator_of(f"torch.ops.aten.{target}")


# --- sizes that do not fit together -----------------------------------------------------------------------------


def program(operator, *args, **options) -> fx.GraphModule:
    """Calls one operator; tensors among its arguments are held."""
    root, graph = nn.Module(), fx.Graph()

    def held(value):
        if isinstance(value, list):
            return [held(item) for item in value]
        if not isinstance(value, torch.Tensor):
            return value
        name = f"tensor_{len(list(root.buffers()))}"
        root.register_buffer(name, value)
        return graph.get_attr(name)

    graph.placeholder("x")
    arguments = tuple(map(held, args))
    graph.output(graph.call_function(operator, arguments, options))
    return fx.GraphModule(root, graph)


def lstm(hidden=4, below=3, biases=(16, 16), weights=4, states=2, layers=1, bidirectional=False):
    """A call with an input of 5 steps, 2 rows and 3 features, and states of 4 numbers."""
    values = [torch.zeros(4 * hidden, below), torch.zeros(16, 4), *(torch.zeros(size) for size in biases)]
    start = [torch.zeros(layers, 2, 4) for _ in range(states)]
    settings = (True, layers, 0.0, False, bidirectional, False)
    return (aten.lstm.input, torch.zeros(5, 2, 3), start, values[:weights], *settings)


Z, ATTENTION = torch.zeros, aten.scaled_dot_product_attention.default
NORM = aten._native_batch_norm_legit_no_training.default
MISFITS = {
    "fewer keys than values": (ATTENTION, Z(1, 1, 4, 8), Z(1, 1, 2, 8), Z(1, 1, 4096, 8)),
    "a mean too short": (NORM, Z(2, 4096), None, None, Z(1), Z(4096), 0.1, 1e-5),
    "a weight too short": (NORM, Z(2, 64), Z(1), Z(64), Z(64), Z(64), 0.1, 1e-5),
    "nothing to normalise": (NORM, Z(2, 0), None, None, Z(0), Z(0), 0.1, 1e-5),
    "weights of an LSTM too narrow": lstm(hidden=1),
    "weights of an LSTM too short": lstm(below=1),
    "biases of an LSTM too short": lstm(biases=(1, 1)),
    "weights of an LSTM missing": lstm(weights=3),
    "a state of an LSTM missing": lstm(states=1),
    "no layer of an LSTM": lstm(layers=0),
    "one direction of an LSTM": lstm(bidirectional=True),
    "enlarged by nearly nothing": (aten.upsample_bicubic2d.default, Z(1, 1, 4, 4), [2, 2], False, 1e-320, 0.6),
    "enlarged by NaN": (aten.upsample_nearest1d.default, Z(1, 1, 4), [8], float("nan")),
}  # fmt: skip


@pytest.mark.parametrize("call", MISFITS.values(), ids=MISFITS)
def test_sizes_that_do_not_fit_together_are_refused(call):
    """Each of them ends the process, or reads and writes beside a tensor, if torch is asked."""
    with pytest.raises(r2et.errors.ModelError, match="do not fit together"):
        rehearse(program(*call), torch.zeros(2, 3))


def test_whole_numbers_are_not_cut_off():
    """The least one divided by -1 is no number, and the process ends."""
    numbers = torch.tensor([-(2**63)]), torch.tensor([-1])
    with pytest.raises(r2et.errors.ModelError, match="do not fit together"):
        rehearse(program(aten.div.Tensor_mode, *numbers, rounding_mode="trunc"), torch.zeros(2, 3))
    rehearse(program(aten.div.Tensor_mode, torch.ones(1), numbers[1], rounding_mode="trunc"), torch.zeros(2, 3))


FITS = {
    "attention": (ATTENTION, Z(1, 1, 4, 8), Z(1, 1, 6, 8), Z(1, 1, 6, 8)),
    "batch norm": (NORM, Z(2, 64), None, None, Z(64), Z(64) + 1, 0.1, 1e-5),
    "LSTM": lstm(),
    "enlarged": (aten.upsample_bilinear2d.vec, Z(1, 1, 4, 4), None, False, [2.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("call", FITS.values(), ids=FITS)
def test_sizes_that_fit_are_not(call):
    ordinary = program(*call)
    rehearse(ordinary, torch.zeros(2, 3))
    ordinary(torch.zeros(2, 3))


@pytest.mark.parametrize(
    "cut", [aten.unbind.int, aten.split.Tensor, aten.tensor_split.sections, aten.chunk.default]
)
def test_a_tensor_is_not_cut_into_very_many_parts(cut):
    number = {aten.unbind.int: 0, aten.split.Tensor: 1}.get(cut, 2**30)
    with little_memory(), pytest.raises(r2et.errors.ModelError, match=r"calls or parts|do not fit"):
        rehearse(program(cut, torch.zeros(1).expand(2**30), number), torch.zeros(2, 3))


def test_sizes_that_depend_on_values_are_refused():
    root, graph = nn.Module(), fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(aten.index.Tensor, (x, [graph.call_function(aten.gt.Scalar, (x, 0))])))
    with pytest.raises(r2et.errors.ModelError, match="depend on its inputs' values"):
        rehearse(fx.GraphModule(root, graph), torch.randn(2, 3))


# --- what must still run ----------------------------------------------------------------------------------------


class Selected(nn.Module):
    """Some features, by a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(x[:, self.mask])


def test_features_that_a_mask_selects(tmp_path):
    model, x = Selected(), torch.randn(4, 5)
    nets.export(model, x, tmp_path / "mask.pt2")
    assert torch.equal(load_program(tmp_path / "mask.pt2")(x), model(x))


def test_a_rehearsal_leaves_no_trace(good):
    program, x = load_program(good), torch.randn(4, 5)
    calls = []
    handle = program.get_submodule("0").register_forward_hook(lambda *_: calls.append(1))
    state, weights = torch.get_rng_state(), {name: value.clone() for name, value in program.state_dict().items()}
    program(x)
    handle.remove()
    assert len(calls) == 1
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in program.state_dict().items())
    assert all(value.device.type == "cpu" for value in program.state_dict().values())


def test_a_smaller_batch_needs_no_rehearsal_of_its_own(good, monkeypatch):
    program, seen = load_program(good), []
    monkeypatch.setattr("r2et.predictors.rehearsal.rehearse", lambda program, x: seen.append(len(x)))
    for rows in (4, 2, 4, 9, 5):
        program(torch.randn(rows, 5))
    assert seen == [4, 9]
    copy.deepcopy(program)(torch.randn(3, 5))
    assert seen == [4, 9, 3]
