"""What has a name: attacks, objectives, explainers, models, data sets, studies; other packages add theirs.

A registry knows what registered itself by `@REGISTRY.register("name")`, what installed packages offer by an entry
point of its group, and `package.module:Class`, which it imports. What stands in a file is looked up by `stored`,
which imports nothing that the file alone names.
"""

import importlib
import inspect
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from r2et.errors import CheckpointError, InputError, TrustError, in_words
from r2et.foreign import code_of, import_code, is_code
from r2et.numerics.values import check_choice, quoted, suggestion

T = TypeVar("T")
S = TypeVar("S")

#: what a caller lets a file name: classes, or `package.module:Class`
Trust = Sequence["str | type"]


@dataclass(frozen=True)
class Entry(Generic[T]):
    """One thing that has a name.

    Attributes:
        name: short, or `package.module:Class` for what nobody registered.
        thing: a class, a function, or for data sets an object.
        title: as tables print it.
        defaults: hyper-parameters that a method of training takes, with their values.
        grid: values of them to choose from.
    """

    name: str
    thing: T
    title: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)


class Registry(Generic[T]):
    """The things of one kind, by name.

    Args:
        kind: what they are, in words.
        group: of the entry points by which other packages add theirs.
        package: whose modules register the built-in ones.
        base: what they must be a subclass of.
        instances: they are objects of the base, not classes.

    >>> shapes = Registry("shape", "r2et.example", package="r2et.numerics", base=tuple)
    >>> @shapes.register("point")
    ... class Point(tuple): ...
    >>> shapes.names(), shapes.find("point").thing is Point, shapes.name_of(Point)
    (('point',), True, 'point')
    >>> shapes.find("pint")
    Traceback (most recent call last):
    r2et.errors.InputError: unknown shape 'pint': did you mean 'point'? Known: point
    """

    def __init__(self, kind: str, group: str, *, package: str, base: Any, instances: bool = False) -> None:
        self.kind, self.group, self.package = kind, group, package
        self.base, self.instances = base, instances
        self.entries: dict[str, Entry[T]] = {}
        self._searched: tuple[str, ...] = ()
        self._refused: set[EntryPoint] = set()
        _REGISTRIES[kind] = self

    # --- adding -------------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        *,
        title: str = "",
        defaults: Mapping[str, Any] | None = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
    ) -> Callable[[S], S]:
        """Decorator: what is below is called so. The same class again, as in a notebook, takes its own place."""
        if not isinstance(name, str) or not name or is_code(name):
            raise InputError(f"the name of an own {self.kind} is a word without a colon, got {quoted(name)}")

        def add(thing: S) -> S:
            self._check(thing, name)
            known = self.entries.get(name)
            if known is not None and _path(known.thing) != _path(thing):
                raise InputError(f"{name!r} is the {self.kind} {_path(known.thing)} already: choose another name")
            self.entries[name] = Entry(name, thing, title, defaults or {}, grid or {})  # type: ignore[arg-type]
            return thing

        return add

    def _check(self, thing: object, name: str) -> None:
        if self.instances:
            fits = isinstance(thing, self.base)
        else:
            fits = isinstance(thing, type) and issubclass(thing, self.base) and not inspect.isabstract(thing)
        if not fits:
            wanted = "" if self.instances else "a complete subclass of "
            raise InputError(f"{self.kind} {name!r} must be {wanted}{_path(self.base)}, got {quoted(thing)}")

    def _load(self) -> None:
        """Everything that has a name by now: the built-in ones, then those of installed packages."""
        home = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(home.__path__):
            # a new one is one new file and no second edit
            importlib.import_module(f"{self.package}.{module.name}")
        if self._searched != tuple(sys.path):
            self._searched = tuple(sys.path)
            for point, thing in load_entry_points(self.group, self._refused):
                try:
                    if point.name not in self.entries or self.entries[point.name].thing is not thing:
                        self.register(point.name)(thing)
                except InputError as error:
                    _refuse(point, str(error), self._refused)

    # --- finding ------------------------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        """All short names, sorted."""
        self._load()
        return tuple(sorted(self.entries))

    def find(self, name: str | T) -> Entry[T]:
        """What has this name: a short one, or `package.module:Class`, which is imported; or a class itself."""
        if isinstance(name, type) or is_code(name):
            thing: Any = import_code(name) if isinstance(name, str) else name
            self._check(thing, _path(thing))
            return self._entry_of(thing)
        if not isinstance(name, str) or name not in self.entries:
            check_choice(self.kind, name, self.names())  # type: ignore[arg-type]  # it says what is no text
        return self.entries[name]  # type: ignore[index]  # it is text

    def stored(self, name: str, trust: Trust = ()) -> Entry[T]:
        """What has this name in a file. Code outside of the registry is refused unless the caller trusts it too.

        Args:
            name: as `name_of` says it.
            trust: classes, or their names `package.module:Class`, which are imported.
        """
        if not is_code(name) or name in trust:
            return self.find(name)
        self._load()
        things = [*(entry.thing for entry in self.entries.values()), *trust]
        for thing in things:
            if not isinstance(thing, str) and _path(thing) == name:
                self._check(thing, name)
                return self._entry_of(thing)  # type: ignore[arg-type]  # checked
        raise TrustError(
            f"the file names the {self.kind} {name!r}, which is neither r2et's nor an installed plug-in's, and "
            f"what a file names is not imported: pass trust=[{name!r}] (--trust {name}) if you know that code"
        )

    def name_of(self, thing: T) -> str:
        """The short name of a class, or `package.module:Class` if nobody registered it."""
        if all(entry.thing is not thing for entry in self.entries.values()):
            self._load()
        return self._entry_of(thing).name

    def _entry_of(self, thing: T) -> Entry[T]:
        own = (entry for entry in self.entries.values() if entry.thing is thing)
        return next(own, Entry(_path(thing), thing))

    # --- making -------------------------------------------------------------------------------------------------

    def create(self, what: Any, **settings: Any) -> Any:
        """An object: of a class or its name with these settings, or a ready one with these settings changed."""
        if not isinstance(what, self.base):
            return self.build(self.find(what), settings)
        self._check_settings(self._entry_of(type(what)), settings)  # type: ignore[arg-type]  # a class of the base
        return replace(what, **settings) if settings else what

    def build(self, entry: Entry[T], settings: Mapping[str, Any]) -> Any:
        """An object of an entry's class; a setting that it has not, or needs, is an InputError that says so."""
        known = self._check_settings(entry, settings)
        missing = [name for name, needed in known.items() if needed and name not in settings]
        if missing:
            raise InputError(f"{self.kind} {entry.name!r} needs {', '.join(missing)}")
        try:
            return entry.thing(**settings)  # type: ignore[operator]  # a class
        except TypeError as error:
            told = f"{self.kind} {entry.name!r} cannot be built with {quoted(dict(settings))}"
            raise InputError(f"{told}: {error}") from error

    def _check_settings(self, entry: Entry[T], settings: Mapping[str, Any]) -> dict[str, bool]:
        """Raise at a setting that a class does not take; those it takes, each with whether it is needed."""
        parameters = inspect.signature(entry.thing).parameters.values()  # type: ignore[arg-type]  # a class
        named = [entry for entry in parameters if entry.kind not in (entry.VAR_KEYWORD, entry.VAR_POSITIONAL)]
        known = {entry.name: entry.default is entry.empty for entry in named}
        for name in settings:
            if name not in known and all(entry.kind is not entry.VAR_KEYWORD for entry in parameters):
                listed = suggestion(name, list(known) or ["(none)"])
                raise InputError(f"{self.kind} {entry.name!r} has no setting {quoted(name)}{listed}")
        return known

    # --- files --------------------------------------------------------------------------------------------------

    def describe(self, thing: Any) -> dict[str, Any]:
        """Name and settings of an object as JSON values, for a file."""
        if not isinstance(thing, self.base):
            raise InputError(f"{self.kind} must be an object of {_path(self.base)}, got {quoted(thing)}")
        name = self.name_of(type(thing))  # type: ignore[arg-type]  # a class, by the line above
        if "<locals>" in name:
            raise InputError(f"{name} is inside of a function, where no file can name it: move it to a module")
        described = {"name": name}
        for entry in (entry for entry in fields(thing) if entry.init):
            value = getattr(thing, entry.name)
            plain = _plain(value)
            if plain is not _NOT_PLAIN:
                described[entry.name] = plain
            elif not _is_default(entry, value):
                raise InputError(
                    f"{quoted(thing)} cannot be described in a checkpoint: {entry.name} is "
                    f"{type(value).__name__}, not a number, text or a list of them"
                )
        return described

    def restore(self, description: Mapping[str, Any], trust: Trust = ()) -> Any:
        """The object that `describe` described; names in it are looked up by `stored`."""
        try:
            settings = dict(description)
            entry = self.stored(settings.pop("name"), trust)
            return self.build(entry, {name: _restored(value, trust) for name, value in settings.items()})
        except CheckpointError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{quoted(description)} does not describe an {self.kind}: {error}") from error


_REGISTRIES: dict[str, Registry[Any]] = {}
_NOT_PLAIN = object()
#: dataclasses of plain values that settings may hold, by their names in files
_VALUES: dict[str, type] = {}


def storable(name: str) -> Callable[[type[S]], type[S]]:
    """Decorator: settings may hold such a dataclass of plain values, and a file calls it so."""

    def add(kind: type[S]) -> type[S]:
        _VALUES[name] = kind
        return kind

    return add


def load_entry_points(group: str, refused: set[EntryPoint]) -> Iterator[tuple[EntryPoint, Any]]:
    """What installed packages offer in a group; one that cannot be imported is a warning, once."""
    for point in sorted(entry_points(group=group)):
        if point not in refused:
            try:
                thing = point.load()
            # whatever somebody's code raises, the rest works
            except (Exception, SystemExit) as error:
                _refuse(point, in_words(error), refused)
            else:
                yield point, thing


def _refuse(point: EntryPoint, why: str, refused: set[EntryPoint]) -> None:
    refused.add(point)
    owner = "an installed package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    warnings.warn(
        f"plug-in {point.name!r} ({point.group}) of {owner} is left out: {why}. Mend or remove that package",
        stacklevel=2,
    )


def foreign_packages() -> set[str]:
    """The packages outside of r2et whose things are registered: what goes wrong in them is not r2et's fault."""
    things = [entry.thing for registry in _REGISTRIES.values() for entry in registry.entries.values()]
    packages = {_path(thing).partition(":")[0].partition(".")[0] for thing in things}
    return packages - {"r2et", "r2et_bench", "__main__"}


def _path(thing: Any) -> str:
    """`package.module:Class` of a class or function, or of what an object is made from."""
    plain = inspect.unwrap(thing)
    return code_of(plain if hasattr(plain, "__qualname__") else type(plain))


def _plain(value: Any) -> Any:
    """A value as JSON has it; an object of a registry as its description."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return _NOT_PLAIN if any(part is _NOT_PLAIN for part in parts) else parts
    for registry in _REGISTRIES.values():
        if is_dataclass(value) and not registry.instances and isinstance(value, registry.base):
            return {"kind": registry.kind, **registry.describe(value)}
    name = next((name for name, kind in _VALUES.items() if type(value) is kind), None)
    if name is not None:
        return {"kind": name} | {
            entry.name: _plain(_listed(getattr(value, entry.name))) for entry in fields(value)
        }
    return _NOT_PLAIN


def _listed(value: Any) -> Any:
    """The numbers of a tensor or array in a value of plain numbers, as Python has them."""
    return value.tolist() if hasattr(value, "tolist") else value


def _restored(value: Any, trust: Trust) -> Any:
    if isinstance(value, list):
        return tuple(_restored(part, trust) for part in value)
    if not isinstance(value, Mapping):
        return value
    settings = dict(value)
    kind = settings.pop("kind", None)
    if isinstance(kind, str) and kind in _REGISTRIES:
        return _REGISTRIES[kind].restore(settings, trust)
    if isinstance(kind, str) and kind in _VALUES:
        return _VALUES[kind](**{name: _restored(entry, trust) for name, entry in settings.items()})
    raise CheckpointError(f"{quoted(value)} describes nothing that r2et knows")


def _is_default(entry: "Field[Any]", value: Any) -> bool:
    default = entry.default_factory() if entry.default_factory is not MISSING else entry.default
    return type(default) is type(value) and bool(default == value)
