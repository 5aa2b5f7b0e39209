"""Shares as text: what is not all of it never reads 100 %, and what is not nothing never reads 0 %."""


def percent(share: float) -> str:
    """A share of 0 to 1 with as many digits as it takes not to look like none or all of it.

    >>> [percent(share) for share in (0.0, 0.004, 0.41, 0.997, 1.0)]
    ['0 %', '0.4 %', '41 %', '99.7 %', '100 %']
    """
    value = 100 * share
    if value in (0.0, 100.0) or 1 <= value <= 99:
        return f"{value:.0f} %"
    return f"{one_digit(share)} %"


def one_digit(share: float) -> str:
    """In percent with one digit, without its sign.

    >>> [one_digit(share) for share in (0.0, 0.0004, 0.8456, 0.9996, 1.0, -0.2)]
    ['0.0', '<0.1', '84.6', '>99.9', '100.0', '-20.0']
    """
    text = f"{100 * share:.1f}"
    if text == "100.0" and share < 1:
        return ">99.9"
    return "<0.1" if text == "0.0" and share > 0 else text
