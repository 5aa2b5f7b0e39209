"""The one memory budget: how much is worked on together when nobody says how much."""

#: input values that are held at once by work that keeps one copy of each
VALUES = 2**24
#: what a proof may take; one that needs more, even for a single input, is refused before it begins
MOST_BYTES = 4 * 10**9


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


def in_gigabytes(size: int) -> str:
    """A number of bytes in words.

    >>> in_gigabytes(80_000_000_000), in_gigabytes(123_456_789)
    ('80 GB', '0.12 GB')
    """
    return f"{size / 1e9:.2g} GB" if size < 1e11 else f"{size / 1e9:,.0f} GB"
