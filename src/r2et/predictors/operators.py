"""The operators that a program from a file may call: what networks are made of, and nothing that acts elsewhere.

`torch.ops.aten` also has operators that write files (`save`, `from_file`), that give tensors memory which is not
theirs (`set_`, `resize_`), that change torch itself (`manual_seed`), and some that trust their arguments. What is
not named here is refused.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from r2et.errors import InputError, ModelError
from r2et.predictors.fields import shown

_POINTWISE = """
    __and__ __or__ __xor__ abs absolute acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh
    bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min clip copysign cos cosh
    div divide elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac ge gelu glu
    greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot isfinite isinf isnan le
    leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_sigmoid logaddexp logaddexp2 logical_and
    logical_not logical_or logical_xor logit lt maximum minimum mish mul multiply nan_to_num ne neg negative
    not_equal polar pow prelu reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit
    silu sin sinc sinh softplus softshrink special_erf special_erfc special_exp2 special_expit special_expm1
    special_log1p special_logit special_ndtr special_sinc sqrt square sub subtract tan tanh threshold
    true_divide trunc where xlogy
"""
_REDUCTIONS = """
    _log_softmax _safe_softmax _softmax all amax amin aminmax any argmax argmin argsort count_nonzero cummax
    cummin cumprod cumsum kthvalue linalg_norm linalg_vector_norm log_softmax logcumsumexp logsumexp max mean
    median min nanmean nansum norm prod softmax sort std std_mean sum topk var var_mean
"""
_PRODUCTS = """
    addbmm addmm addmv addr baddbmm bilinear bmm cdist chain_matmul cosine_similarity cross dot einsum inner
    linalg_matmul linear matmul mm mv outer pairwise_distance tensordot vdot
"""
_SHAPES = """
    _unsafe_view alias atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors broadcast_to cat
    channel_shuffle chunk clone column_stack concat concatenate constant_pad_nd contiguous detach diag
    diag_embed diagonal dstack expand expand_as flatten flip fliplr flipud gather hsplit hstack im2col index
    index_add index_copy index_fill index_put index_select masked_fill meshgrid moveaxis movedim narrow
    numpy_T pad permute pixel_shuffle pixel_unshuffle ravel reflection_pad1d reflection_pad2d reflection_pad3d
    repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d reshape reshape_as roll
    rot90 scatter scatter_add select select_scatter slice slice_scatter split split_with_sizes squeeze stack
    swapaxes swapdims t take_along_dim tensor_split tile transpose tril triu unbind unflatten unfold unsqueeze
    view view_as vsplit vstack
"""
_CREATION = """
    _to_copy arange complex copy eye fill full full_like imag lift_fresh lift_fresh_copy linspace new_full
    new_ones new_zeros one_hot ones ones_like rand rand_like randn randn_like real scalar_tensor to type_as
    view_as_complex view_as_real zero zeros zeros_like
"""
_LAYERS = """
    _adaptive_avg_pool2d _adaptive_avg_pool3d _native_batch_norm_legit_no_training adaptive_avg_pool1d
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
    alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d
    convolution dropout embedding feature_alpha_dropout feature_dropout
    group_norm gru gru_cell instance_norm layer_norm lstm lstm_cell max_pool1d max_pool2d
    max_pool2d_with_indices max_pool3d native_group_norm native_layer_norm rms_norm rnn_relu rnn_relu_cell
    rnn_tanh rnn_tanh_cell scaled_dot_product_attention upsample_bicubic2d upsample_bilinear2d
    upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
"""
#: along one axis; the ones along several write beside their memory where the last axis is not among them
_FOURIER = "fft_fft fft_ifft fft_irfft fft_rfft"
#: overloads that let bytes be truth values, trust lengths of sequences, or take a type of numbers as a number
_UNSAFE = {
    *("view.dtype", "repeat_interleave.Tensor", "repeat_interleave.self_Tensor"),
    *("gru.data", "lstm.data", "rnn_relu.data", "rnn_tanh.data"),
    *("to.prim_Device", "to.prim_dtype", "to.prim_other"),
}
#: of sizes, which return numbers, or check what they are told and return nothing
_SIZES = "sym_size sym_numel sym_stride _assert_scalar _assert_tensor_metadata sym_constrain_range_for_size"
_OF_TENSORS = frozenset(
    " ".join((_POINTWISE, _REDUCTIONS, _PRODUCTS, _SHAPES, _CREATION, _LAYERS, _FOURIER)).split()
)
_OF_SIZES = frozenset(_SIZES.split())
_ATEN = "torch.ops.aten."
#: what an operator may take; a generator of random numbers is never in a file
_TAKEN = ("Tensor", "int", "float", "bool", "number", "str", "Device", "Generator")
_RETURNED = ("Tensor", "List[Tensor]")


def product(first: Any, second: Any) -> Any:
    """The product of two sizes; a number that is squared again and again would fill the memory.

    >>> product(3, 4)
    12
    """
    product = first * second
    # symbols, while a program is traced, have no size
    if isinstance(product, int) and abs(product) >= 2**63:
        raise ModelError(f"the program computes the size {first} * {second}, which no tensor has")
    return product


#: arithmetic of sizes, by its name in a file
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "_operator.mul": product,
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in ("add", "sub", "floordiv", "truediv", "mod", "neg", "eq", "ne", "le", "ge", "lt", "gt")
    },
    **{
        f"torch.{name}": getattr(torch, name) for name in ("sym_max", "sym_min", "sym_int", "sym_float", "sym_not")
    },
    "math.trunc": math.trunc,
}


def operator_of(target: str) -> Any:
    """The overload of a torch operator that a file names.

    >>> operator_of("torch.ops.aten.relu.default")
    <OpOverload(op='aten.relu', overload='default')>
    """
    name, _, overload = target.removeprefix(_ATEN).partition(".")
    # an operator that works in place, `relu_`, stands beside the one that does not
    plain = name in _OF_SIZES or name.removesuffix("_") in _OF_TENSORS
    packet = getattr(torch.ops.aten, name, None) if plain and target.startswith(_ATEN) else None
    if packet is None or overload not in packet.overloads() or f"{name}.{overload}" in _UNSAFE:
        raise InputError(_refusal(target))
    chosen = getattr(packet, overload)
    if not _plain(chosen._schema, of_sizes=name in _OF_SIZES):
        raise InputError(_refusal(target))
    return chosen


def _plain(schema: Any, *, of_sizes: bool) -> bool:
    """Numbers and tensors in, tensors out, and none of them written over but the first of an operator in place."""
    taken = all(_element(str(argument.type)) in _TAKEN and not argument.is_out for argument in schema.arguments)
    returned = bool(schema.returns) and all(str(value.type) in _RETURNED for value in schema.returns)
    return taken and (returned or of_sizes)


def _element(kind: str) -> str:
    """`Tensor` of `List[Optional[Tensor]]`."""
    return kind.replace("Optional[", "").replace("List[", "").rstrip("]")


def _refusal(target: str) -> str:
    return (
        f"it calls {shown(target)}, which is not an operator of torch that r2et runs from a file. Give such a "
        "model as package.module:factory with --weights file.safetensors"
    )
