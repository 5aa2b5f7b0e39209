"""The one memory budget: how much is worked on together when nobody says how much."""

#: input values that are held at once by work that keeps one copy of each
VALUES = 2**24


def at_once(size: int, *, copies: int = 1, least: int = 1) -> int:
    """How many things are worked on together.

    Args:
        size: values of one thing, such as the features of a row.
        copies: how many copies of each value the work keeps: graphs of an attack, matrices of a proof.
        least: never fewer than these.

    >>> at_once(784), at_once(784, copies=256), at_once(2**30)
    (21399, 83, 1)
    """
    return max(least, VALUES // (copies * size))
