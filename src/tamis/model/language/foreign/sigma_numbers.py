"""Comparisons of numbers as regular expressions over decimal text, for fields that other rules compare with text."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["number_expression"]

_FRACTION = r"(\.[0-9]+)?"
_ANY = f"[0-9]+{_FRACTION}"


def number_expression(op: str, bound: int) -> str:
    r"""Return a regular expression that a decimal number fits when it compares so with a whole number.

    >>> number_expression(">=", 80)
    '^(0*(([1-9][0-9]{2,}|9[0-9]|8[1-9])(\\.[0-9]+)?|80(\\.[0-9]+)?))$'
    """
    size, is_more, has_equal = abs(bound), op[0] == ">", op.endswith("=")
    texts = []
    if bound >= 0:
        if not is_more:
            texts.append(f"-{_ANY}" if bound or has_equal else f"-{_more(0, False)}")
        if is_more or bound or has_equal:
            texts.append(_more(size, has_equal) if is_more else _less(size, has_equal))
        if is_more and not bound and has_equal:
            texts.append(f"-{_less(0, True)}")
    else:
        if is_more:
            texts.append(_ANY)
        texts.append(f"-{_less(size, has_equal) if is_more else _more(size, has_equal)}")
    return f"^({'|'.join(texts)})$"


def _more(size: int, has_equal: bool) -> str:
    """Return the numbers above a size; leading zeros may be there."""
    greater = "|".join(_greater(str(size)))
    equal = f"{size}{_FRACTION}" if has_equal else rf"{size}\.[0-9]*[1-9][0-9]*"
    return f"0*(({greater}){_FRACTION}|{equal})"


def _less(size: int, has_equal: bool) -> str:
    smaller = "|".join(_smaller(str(size)))
    equal = rf"0*{size}(\.0+)?" if has_equal else ""
    below = f"0*({smaller}){_FRACTION}" if smaller else ""
    return f"({'|'.join(filter(None, (below, equal)))})"


def _greater(digits: str) -> Iterator[str]:
    """Yield the whole numbers above one: those with more digits, and those that differ first in a greater digit."""
    yield f"[1-9][0-9]{{{len(digits)},}}"
    for i, digit in enumerate(digits):
        if digit != "9":
            yield digits[:i] + _between(int(digit) + 1, 9) + _digits(len(digits) - i - 1)


def _smaller(digits: str) -> Iterator[str]:
    for i, digit in enumerate(digits):
        if digit != "0":
            yield digits[:i] + _between(0, int(digit) - 1) + _digits(len(digits) - i - 1)
    if len(digits) > 1:
        yield f"[0-9]{{1,{len(digits) - 1}}}"


def _digits(n: int) -> str:
    return "[0-9]" * n if n < 2 else f"[0-9]{{{n}}}"


def _between(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"
