"""Comparisons of numbers as regular expressions over decimal text: a field of a Sigma rule is text."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["number_expression"]

_FRACTION = r"(\.[0-9]+)?"
_ANY = f"[0-9]+{_FRACTION}"


def number_expression(op: str, bound: str) -> str:
    r"""Return a regular expression that a decimal number fits when it compares so with a bound in plain digits.

    >>> number_expression(">=", "80")
    '^(0*(([1-9][0-9]{2,}|9[0-9]|8[1-9])(\\.[0-9]+)?|80(\\.[0-9]+)?))$'
    """
    is_negative, size = bound.startswith("-"), bound.lstrip("-")
    is_more, has_equal, is_zero = op[0] == ">", op.endswith("="), size == "0"
    texts = []
    if not is_negative:
        if not is_more:
            texts.append(f"-{_more('0', False)}" if is_zero and not has_equal else f"-{_ANY}")
        if is_more or not is_zero or has_equal:
            texts.append(_more(size, has_equal) if is_more else _less(size, has_equal))
        if is_more and is_zero and has_equal:
            texts.append(f"-{_less('0', True)}")
    else:
        if is_more:
            texts.append(_ANY)
        texts.append(f"-{_less(size, has_equal) if is_more else _more(size, has_equal)}")
    return f"^({'|'.join(texts)})$"


def _more(size: str, has_equal: bool) -> str:
    """Return the numbers above a size; leading zeros may be there."""
    whole, _, fraction = size.partition(".")
    greater = "|".join(_greater(whole))
    if fraction:
        beyond = "|".join([*_greater_fractions(fraction), fraction + ("[0-9]*" if has_equal else "[0-9]*[1-9][0-9]*")])
        equal = rf"{whole}\.({beyond})"
    else:
        equal = f"{whole}{_FRACTION}" if has_equal else rf"{whole}\.[0-9]*[1-9][0-9]*"
    return f"0*(({greater}){_FRACTION}|{equal})"


def _less(size: str, has_equal: bool) -> str:
    whole, _, fraction = size.partition(".")
    smaller = "|".join(_smaller(whole))
    texts = [f"0*({smaller}){_FRACTION}"] if smaller else []
    if fraction:
        below = "|".join([*_smaller_fractions(fraction), *([f"{fraction}0*"] if has_equal else [])])
        texts.append(rf"0*{whole}(\.({below}))?" if below else f"0*{whole}")
    elif has_equal:
        texts.append(rf"0*{whole}(\.0+)?")
    return f"({'|'.join(texts)})"


def _greater_fractions(digits: str) -> Iterator[str]:
    """Yield the fractions that differ first in a greater digit."""
    for i, digit in enumerate(digits):
        if digit != "9":
            yield digits[:i] + _between(int(digit) + 1, 9) + "[0-9]*"


def _smaller_fractions(digits: str) -> Iterator[str]:
    """Yield the fractions that differ first in a smaller digit, or end sooner: the last digit is not 0."""
    for i, digit in enumerate(digits):
        if digit != "0":
            yield digits[:i] + _between(0, int(digit) - 1) + "[0-9]*"
        if i:
            yield digits[:i]


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
