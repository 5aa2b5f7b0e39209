"""Sizes of an exported tensor, of which some may vary."""

import ast
from typing import Any

from r2et.errors import InputError
from r2et.predictors.fields import entry, only, shown, whole

#: characters of a formula of sizes
_LONGEST = 2000
#: functions that torch writes into such a formula
_FUNCTIONS = """
    Symbol Integer Float Rational Add Mul Pow Max Min Abs Mod PythonMod FloorDiv CleanDiv CeilDiv ModularIndexing
    Where IntTrueDiv FloatTrueDiv ToFloat TruncToInt CeilToInt FloorToInt RoundToInt PowByNatural Identity
"""
_PARTS = (
    ast.Expression, ast.Load, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp,
    ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Div, ast.Mod, ast.USub,
)  # fmt: skip


def size_of(value: Any) -> int | None:
    """A size of a tensor; None for one that varies.

    torch evaluates the formula of a size that varies as Python. r2et has no need of it and does not, but a formula
    that is none betrays a file that was made to run code.

    >>> size_of({"as_int": 3}), size_of({"as_expr": {"expr_str": "Symbol('s0', integer=True)", "hint": None}})
    (3, None)
    """
    kind, content = only(value)
    if kind == "as_int" and whole(content) >= 0:
        return whole(content)
    if kind != "as_expr":
        raise InputError(f"a tensor has the size {kind} {shown(content)}")
    formula = entry(content, "expr_str", str)
    if len(formula) > _LONGEST or not _is_formula(formula):
        raise InputError(f"a size is {shown(formula)}, which is not a formula of sizes")
    return None


def _is_formula(text: str) -> bool:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(_is_part(node) for node in ast.walk(tree))


def _is_part(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS.split()
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) or (isinstance(node.value, str) and node.value.isidentifier())
    return isinstance(node, _PARTS)
