"""What goes wrong in words: every message quotes the input and says what to do about it."""


class InputError(ValueError):
    """Something a user passed in cannot be used."""


class ModelError(InputError):
    """A model does not behave as r2et needs it to."""


class DataError(InputError):
    """A data set cannot be found, read or trusted."""


class CheckpointError(InputError):
    """A file is not a complete r2et checkpoint."""


class TrustError(CheckpointError):
    """A file names code that is neither r2et's nor an installed plug-in's: it is not imported."""
