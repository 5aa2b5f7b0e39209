"""Code that a person names as `package.module:thing`: it is imported, and thereby run."""

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from r2et.errors import InputError, in_words
from r2et.numerics.values import suggestion

_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_code(text: object) -> bool:
    """Whether a text has the form `package.module:thing`.

    >>> is_code("shop.models:make"), is_code("models/net.pt2")
    (True, False)
    """
    return isinstance(text, str) and _PATTERN.fullmatch(text) is not None


def import_code(source: str) -> Any:
    """What is called `package.module:thing`, or `package.module:Class.method`.

    The current folder can be imported from. The code that is named here is run.

    >>> import_code("collections:Counter")
    <class 'collections.Counter'>
    """
    module_name, _, path = source.partition(":")
    try:
        with importable_here():
            thing: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(
            f"module {module_name!r} of {source!r} cannot be imported: {error}. It is looked for in the current "
            "folder and among the installed packages"
        ) from error
    # sys.exit() of somebody's code is not the end of ours
    except (Exception, SystemExit) as error:
        raise InputError(f"importing {module_name!r} raised {in_words(error)}") from error
    for name in path.split("."):
        if not _has(thing, name):
            known = [entry for entry in dir(thing) if callable(getattr(thing, entry, None)) and entry[0] != "_"]
            raise InputError(f"{module_name!r} has no {path!r}{suggestion(name, known[:20])}")
        thing = getattr(thing, name)
    return thing


def code_of(thing: Any) -> str:
    """The text that `import_code` finds a class or function by.

    >>> from collections import Counter
    >>> code_of(Counter)
    'collections:Counter'
    """
    return f"{thing.__module__}:{thing.__qualname__}"


def _has(thing: Any, name: str) -> bool:
    """Whether it has an attribute; a module's own `__getattr__` may raise anything."""
    try:
        return hasattr(thing, name)
    except (Exception, SystemExit) as error:
        raise InputError(f"looking up {name!r} raised {in_words(error)}") from error


@contextmanager
def importable_here() -> Iterator[None]:
    """An installed command does not look into the current folder, unlike `python`."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    # a file that was written a moment ago is not in the finder's cache
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(here)
