"""Sizes that vary are formulas; what is none betrays a file that was made to run code."""

import pytest

from r2et.errors import InputError
from r2et.predictors.sizes import size_of


def varying(formula):
    return {"as_expr": {"expr_str": formula, "hint": None}}


@pytest.mark.parametrize("size", [0, 1, 2**40])
def test_a_fixed_size(size):
    assert size_of({"as_int": size}) == size


@pytest.mark.parametrize("value", [{"as_int": -1}, {"as_int": True}, {"as_int": 2**63}, {"as_float": 1.0}, {}, 3])
def test_what_is_no_size(value):
    with pytest.raises(InputError):
        size_of(value)


@pytest.mark.parametrize(
    "formula",
    [
        "Symbol('s0', positive=True, integer=True)",
        "Add(Mul(Integer(2), Symbol('s0')), Integer(1))",
        "FloorDiv(Symbol('s0'), 2)",
        "-3 * 4 // 2",
    ],
)
def test_a_formula_varies(formula):
    assert size_of(varying(formula)) is None


@pytest.mark.parametrize(
    "formula",
    [
        "__import__('os').system('true')",
        "open('file')",
        "().__class__",
        "Symbol('s0').__class__",
        "Symbol('import os; os.system(1)')",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "s0 if 1 else 2",
        "1 +",
        "",
        "\0",
        "(" * 3000,
        "1 + " * 600 + "1",
    ],
)
def test_code_is_refused_unrun(formula):
    with pytest.raises(InputError, match="not a formula of sizes"):
        size_of(varying(formula))
