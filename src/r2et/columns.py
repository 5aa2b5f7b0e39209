"""How encoded features make up the columns of a table, and how often each value of a discrete column occurs."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from r2et.domain import Domain
from r2et.errors import InputError
from r2et.numerics.checks import check_inputs
from r2et.numerics.once import once
from r2et.numerics.values import as_number, check_choice, check_kind, check_names, is_whole, quoted
from r2et.registry import storable

Kind = Literal["number", "flag", "category"]


@storable("columns")
@dataclass(frozen=True, repr=False)
class Columns:
    """The columns of a table whose rows are encoded as n features.

    A number and a flag are one feature each, or several that are always the same. A category is a group of
    features of which exactly one is 1. A number that may be missing has one more feature, which is 1 where it is,
    and then holds a stand-in (its median). Every feature is in one column.

    Args:
        names: of the columns.
        features: the numbers of each column's features, 0..n-1.
        kinds: "number", "flag" (0 or 1) or "category" of each column.
        frequencies: how often each value of a discrete column occurs, as shares that sum to 1: of 0 and 1 for a
            flag, of each feature for a category; () for a number.
        missing: for each column the feature that is 1 where its value is missing, -1 for none; () = none at all.

    >>> columns = Columns(
    ...     names=("age", "job", "smokes"),
    ...     features=((0,), (1, 2), (3,)),
    ...     kinds=("number", "category", "flag"),
    ...     frequencies=((), (0.25, 0.75), (0.5, 0.5)),
    ... )
    >>> columns
    Columns(1 number, 1 flag, 1 category; 4 features)
    >>> columns.owner, columns.continuous
    (tensor([0, 1, 1, 2]), tensor([ True, False, False, False]))
    >>> columns.check_rows(torch.tensor([[0.3, 1.0, 0.0, 1.0], [0.1, 1.0, 1.0, 0.0]]))
    Traceback (most recent call last):
    r2et.errors.InputError: row 1 has no valid value of the category 'job': its features 1, 2 are 1, 1, and exactly
    one of them is 1 in a row that can exist
    """

    names: Sequence[str]
    features: Sequence[Sequence[int]]
    kinds: Sequence[Kind]
    frequencies: Sequence[Sequence[float]]
    missing: Sequence[int] = ()

    def __post_init__(self) -> None:
        # kept as tuples: what can be looked at once only would be empty afterwards
        names = check_names("names", self.names)
        object.__setattr__(self, "names", names)
        for field, entries in (("features", self.features), ("frequencies", self.frequencies)):
            object.__setattr__(self, field, _lists(field, entries, len(names)))
        object.__setattr__(self, "kinds", _listed("kinds", self.kinds, len(names)))
        _check_features(self.features)
        none = isinstance(self.missing, tuple | list) and not self.missing
        object.__setattr__(
            self, "missing", (-1,) * len(names) if none else _listed("missing", self.missing, len(names))
        )
        for name, features, kind, shares, flag in zip(
            names, self.features, self.kinds, self.frequencies, self.missing, strict=True
        ):
            check_choice(f"kind of column {name!r}", kind, get_args(Kind))
            _check_shares(name, kind, len(features), shares)
            _check_missing(name, kind, features, flag)

    @classmethod
    def from_rows(cls, x: Tensor, domain: Domain, *, names: Iterable[str] | None = None) -> "Columns":
        """Learn frequencies from valid rows x (N, n).

        Every group of the domain is a category, and every frozen feature that is 0 or 1 in all rows is a flag;
        the others are numbers. What says that a number is missing is in the number's column.

        Args:
            x: (N, n), such as the rows that a model was trained on.
            domain: which features are frozen, and which are one category.
            names: of the n features; None = they are numbered. A category is called by what its features' names
                have in common before a colon, as in "job: cook".

        >>> rows = torch.tensor([[0.3, 1.0, 0.0, 1.0], [0.1, 0.0, 1.0, 0.0], [2.0, 0.0, 1.0, 1.0]])
        >>> names = ("age", "job: cook", "job: nurse", "smokes")
        >>> columns = Columns.from_rows(rows, Domain(groups=[[1, 2]], frozen=[3]), names=names)
        >>> columns.names, columns.kinds
        (('age', 'job', 'smokes'), ('number', 'category', 'flag'))
        """
        check_inputs(x)
        check_kind("domain", domain, Domain, "r2et.Domain(groups=[[0, 1]])")
        if x.ndim != 2:
            raise InputError(f"columns are those of a table: x must have shape (N, n), got {tuple(x.shape)}")
        n = x.shape[1]
        domain.check(n)
        of_features = tuple(f"feature {i}" for i in range(n)) if names is None else check_names("names", names, n)
        own, missing = _owners(domain, n)
        x = x.detach().double()
        binary = ((x == 0) | (x == 1)).all(0)
        kinds: list[Kind] = []
        shares: list[tuple[float, ...]] = []
        for features in own:
            category = features in domain.groups
            flag = all(i in domain.frozen and binary[i] for i in features)
            kinds.append("category" if category else "flag" if flag else "number")
            of_ones = x[:, list(features)].mean(0).tolist()
            shares.append(tuple(of_ones) if category else (1 - of_ones[0], of_ones[0]) if flag else ())
        valued = [[i for i in features if i != flag] for features, flag in zip(own, missing, strict=True)]
        told = _distinct([_common_name([of_features[i] for i in features]) for features in valued])
        # a mean over rows that cannot exist is no frequency
        _check_rows(x, told, own, kinds, missing)
        return cls(told, own, tuple(kinds), tuple(shares), missing)

    def __len__(self) -> int:
        """How many columns."""
        return len(self.names)

    def __repr__(self) -> str:
        count = Counter(self.kinds)
        plural = {"number": "numbers", "flag": "flags", "category": "categories"}
        told = ", ".join(f"{count[kind]} {kind if count[kind] == 1 else plural[kind]}" for kind in get_args(Kind))
        return f"Columns({told}; {self.n} features)"

    @cached_property
    def n(self) -> int:
        """How many features."""
        return sum(map(len, self.features))

    @cached_property
    def owner(self) -> Tensor:
        """The number of each feature's column, int64 (n,)."""
        owner = torch.zeros(self.n, dtype=torch.int64)
        for column, features in enumerate(self.features):
            owner[list(features)] = column
        return owner

    @cached_property
    def continuous(self) -> Tensor:
        """Which features are numbers, bool (n,): the others jump from one value to another."""
        return self._numbers()

    def _numbers(self) -> Tensor:
        numbers = torch.tensor([kind == "number" for kind in self.kinds])[self.owner]
        numbers[[flag for flag in self.missing if flag >= 0]] = False
        return numbers

    def where_missing(self, columns: Iterable[int]) -> "Columns":
        """The same columns for rows in which some numbers, by their places, are missing: they do not move there.

        >>> columns = Columns(("age", "pay"), ((0, 1), (2,)), ("number", "number"), ((), ()), (1, -1))
        >>> columns.continuous, columns.where_missing([0]).continuous
        (tensor([ True, False,  True]), tensor([False, False,  True]))
        """
        gone = tuple(columns)
        own = {field.name: getattr(self, field.name) for field in fields(Columns)}
        return _WhereMissing(**own, gone=gone) if gone else self

    def valued(self, column: int) -> tuple[int, ...]:
        """The features of a column that hold its value: all but the one that says that it is missing.

        >>> Columns(("age",), ((0, 1),), ("number",), ((),), (1,)).valued(0)
        (0,)
        """
        return tuple(i for i in self.features[column] if i != self.missing[column])

    def missing_in(self, x: Tensor) -> Tensor:
        """Which numbers are missing in rows x (N, n), bool (N, columns).

        >>> columns = Columns(("age", "pay"), ((0, 1), (2,)), ("number", "number"), ((), ()), (1, -1))
        >>> columns.missing_in(torch.tensor([[0.0, 1.0, 2.0], [0.5, 0.0, 2.0]]))
        tensor([[ True, False],
                [False, False]])
        """
        flags = torch.tensor(self.missing, device=x.device)
        return (x.detach()[:, flags.clamp_min(0)] != 0) & (flags >= 0)

    @cached_property
    def typical(self) -> Tensor:
        """A row that can exist, float64 (n,): numbers at 0, the most frequent value of every discrete column."""
        row = torch.zeros(self.n, dtype=torch.float64)
        for features, kind, shares in zip(self.features, self.kinds, self.frequencies, strict=True):
            if kind != "number":
                most = shares.index(max(shares))
                row[list(features)] = self.values(kind, len(features))[most]
        return row

    @staticmethod
    def values(kind: Kind, size: int) -> Tensor:
        """Every value that the features of a discrete column can take, float64 (values, size)."""
        if kind == "category":
            return torch.eye(size, dtype=torch.float64)
        return torch.tensor([0.0, 1.0], dtype=torch.float64)[:, None].expand(2, size)

    def domain(self) -> Domain:
        """What may change of such a row: the numbers, without bounds; discrete columns stay as they are."""
        valued = [(self.valued(number), kind) for number, kind in enumerate(self.kinds)]
        together = [(features, kind) for features, kind in valued if len(features) > 1]
        groups = [features for features, kind in together if kind == "category"]
        grouped = {i for group in groups for i in group}
        return Domain(
            frozen=[i for i in range(self.n) if not self.continuous[i] and i not in grouped],
            groups=groups,
            equal=[features for features, kind in together if kind != "category"],
            absent=[
                (i, flag) for number, flag in enumerate(self.missing) if flag >= 0 for i in self.valued(number)
            ],
        )

    def check_rows(self, x: Tensor) -> None:
        """Raise unless every row of x (N, n) can exist; the message names the row and the column."""
        check_rows_exist(x, self)


@dataclass(frozen=True, repr=False)
class _WhereMissing(Columns):
    """Columns of rows in which some numbers are missing: these are as discrete as flags.

    Args:
        gone: their places.
    """

    gone: tuple[int, ...] = ()

    @cached_property
    def continuous(self) -> Tensor:
        """Which features are numbers that are there, bool (n,)."""
        numbers = self._numbers()
        numbers[[i for column in self.gone for i in self.features[column]]] = False
        return numbers


@once
def check_rows_exist(x: Tensor, columns: Columns) -> None:
    """Raise unless x are rows (N, n) of these columns that can exist."""
    if x.ndim != 2 or x.shape[1] != columns.n:
        raise InputError(
            f"the {len(columns)} columns have {columns.n} features, but x has shape {tuple(x.shape)}: encode the "
            "rows as the columns say"
        )
    _check_rows(x.detach(), columns.names, columns.features, columns.kinds, columns.missing)


def _check_rows(
    x: Tensor,
    names: Sequence[str],
    features: Sequence[Sequence[int]],
    kinds: Sequence[Kind],
    missing: Sequence[int],
) -> None:
    """Raise at the first row of x (N, n) whose column holds what no row can hold."""
    binary = (x == 0) | (x == 1)
    for name, own, kind, flag in zip(names, features, kinds, missing, strict=True):
        members = [i for i in own if i != flag]
        part = x[:, members]
        wrong = (part != part[:, :1]).any(1)
        rule = f"they are the same {kind} in a row that can exist"
        if kind == "category":
            wrong = part.sum(1) != 1
            rule = "exactly one of them is 1 in a row that can exist"
        if kind != "number":
            wrong = wrong | ~binary[:, members].all(1)
            rule = "it is 0 or 1 in a row that can exist" if len(members) == 1 else rule
        if wrong.any():
            raise _impossible(x, wrong, f"{kind} {name!r}", members, rule)
        if flag >= 0 and not binary[:, flag].all():
            rule = "it is 1 where the value is missing, and 0 elsewhere"
            raise _impossible(x, ~binary[:, flag], f"{kind} {name!r}", [flag], rule)


def _impossible(x: Tensor, wrong: Tensor, column: str, members: list[int], rule: str) -> InputError:
    row = int(wrong.nonzero()[0])
    listed, held = ", ".join(map(str, members[:12])), ", ".join(f"{v:g}" for v in x[row, members[:12]].tolist())
    more = "" if len(members) <= 12 else f" and {len(members) - 12} more"
    verb = "feature" if len(members) == 1 else "features"
    return InputError(
        f"row {row} has no valid value of the {column}: its {verb} {listed}{more} "
        f"{'is' if len(members) == 1 else 'are'} {held}, and {rule}"
    )


def _listed(field: str, entries: object, count: int) -> tuple[object, ...]:
    usable = isinstance(entries, Iterable) and not isinstance(entries, str | bytes | Tensor)
    listed = tuple(entries) if usable else ()  # type: ignore[arg-type]  # it can be gone through
    if not usable or len(listed) != count:
        raise InputError(
            f"{field} must be a list with one entry for each of {count} columns, got {quoted(entries)}"
        )
    return listed


def _lists(field: str, entries: object, count: int) -> tuple[tuple[object, ...], ...]:
    listed = _listed(field, entries, count)
    for entry in listed:
        if not isinstance(entry, Iterable) or isinstance(entry, str | bytes):
            raise InputError(f"{field} must be a list of lists, got {quoted(entry)} among them")
    return tuple(tuple(entry) for entry in listed)  # type: ignore[arg-type]  # checked


def _check_features(features: Sequence[Sequence[int]]) -> None:
    """Every feature from 0 on is in one column."""
    members = [i for column in features for i in column]
    for number in members:
        if not is_whole(number) or number < 0:
            raise InputError(f"features must be whole numbers of at least 0, got {quoted(number)}")
    twice = next((i for i, count in Counter(members).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"feature {twice} is in features={quoted(features)} twice: it is of one column")
    missing = next((i for i in range(len(members)) if i not in set(members)), None)
    if missing is not None or not members:
        raise InputError(f"feature {missing or 0} is in no column of features={quoted(features)}")


def _check_missing(name: str, kind: Kind, features: Sequence[int], flag: object) -> None:
    if not is_whole(flag) or (flag != -1 and (kind != "number" or flag not in features or len(features) < 2)):
        raise InputError(
            f"missing must name one of two or more features of a number, or -1 for none; got {quoted(flag)} for "
            f"the {kind} {name!r} of the features {quoted(features)}"
        )


def _check_shares(name: str, kind: Kind, size: int, shares: Sequence[float]) -> None:
    wanted = {"number": 0, "flag": 2, "category": size}[kind]
    if size == 0 or len(shares) != wanted:
        raise InputError(
            f"column {name!r} is a {kind} of {size} feature(s): it has {wanted} frequencies, got {quoted(shares)}"
        )
    numbers = [as_number(share) for share in shares]
    if not all(number is not None and 0 <= number <= 1 for number in numbers) or (
        wanted and not math.isclose(math.fsum(map(float, shares)), 1.0, abs_tol=1e-6)
    ):
        raise InputError(f"the frequencies of column {name!r} must be shares that sum to 1, got {quoted(shares)}")


def _owners(domain: Domain, n: int) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The features of each column, by the first of them, and which of them says that the value is missing.

    Groups, features that are always the same, others. A flag for several columns is a column of its own.
    """
    together = [tuple(group) for group in (*domain.groups, *domain.equal)]
    members = {i: group for group in together for i in group}
    flags = {members.get(value, (value,)): flag for value, flag in domain.absent}
    own = {flag for flag, count in Counter(flags.values()).items() if count == 1 and flag not in members}
    columns = [*together, *((i,) for i in range(n) if i not in members and i not in own)]
    listed = []
    for column in columns:
        flag = flags.get(column, -1)
        listed.append(((*column, flag), flag) if flag in own else (column, -1))
    listed.sort(key=lambda entry: min(entry[0]))
    return tuple(features for features, _ in listed), tuple(flag for _, flag in listed)


def _common_name(names: Sequence[str]) -> str:
    """What the features of one column are called together."""
    before = {name.rpartition(": ")[0] for name in names}
    if len(names) > 1 and len(before) == 1 and "" not in before:
        return before.pop()
    return names[0] if len(names) == 1 else " / ".join(names)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which no two are alike: a column may be called as a category's common part."""
    seen: Counter[str] = Counter()
    told = []
    for name in names:
        seen[name] += 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(told)
