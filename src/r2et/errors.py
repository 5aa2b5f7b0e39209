"""What goes wrong in words: every message quotes the input and says what to do about it."""

__all__ = ["CheckpointError", "ContradictionError", "DataError", "InputError", "ModelError", "TrustError"]


class InputError(ValueError):
    """Something a user passed in cannot be used."""


class ModelError(InputError):
    """A model does not behave as r2et needs it to."""


class ContradictionError(ModelError):
    """A proof about a model and an attack on it contradict each other: the proof is not sound."""


class DataError(InputError):
    """A data set cannot be found, read or trusted."""


class CheckpointError(InputError):
    """A file is not a complete r2et checkpoint."""


class TrustError(CheckpointError):
    """A file names code that is neither r2et's nor an installed plug-in's: it is not imported."""


def shortened(text: str, most: int = 600) -> str:
    """A text, cut in the middle if it is long.

    >>> shortened("0123456789" * 99, 20)
    '0123456789 ... 56789'
    """
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 4 :]}"


def in_words(error: BaseException) -> str:
    """The first line of an exception; of the operating system's without number and path, else with its type.

    >>> in_words(KeyError("age")), in_words(OSError(36, "File name too long", "x" * 999))
    ("KeyError: 'age'", 'File name too long')
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    told = shortened(next(iter(str(error).strip().splitlines()), ""))
    return f"{type(error).__name__}: {told}" if told else type(error).__name__
