"""Help that names what is registered, plug-ins too: looked up when help is asked for, which imports torch."""

from collections.abc import Callable, Iterable
from typing import Any

from typer.core import TyperCommand


def _attacks() -> Iterable[str]:
    from r2et.attacks import ATTACKS

    return ATTACKS.names()


def _explainers() -> Iterable[str]:
    from r2et.explainers import EXPLAINERS

    return EXPLAINERS.names()


def _methods() -> Iterable[str]:
    from r2et.recipes import method_names

    return method_names()


#: what stands in a help text for a list of names
_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "{attacks}": _attacks,
    "{explainers}": _explainers,
    "{methods}": _methods,
}


class ListingCommand(TyperCommand):
    """A command in whose help `{attacks}`, `{explainers}` and `{methods}` are the names that there are."""

    def get_help(self, ctx: Any) -> str:
        """The help text, with the names filled in."""
        for part in (self, *self.params):
            text: str | None = getattr(part, "help", None)
            if text is not None:
                vars(part)["help"] = _filled(text)
        return super().get_help(ctx)


def _filled(text: str) -> str:
    for mark, names in _LISTS.items():
        if mark in text:
            text = text.replace(mark, ", ".join(names()))
    return text
