"""The functions that filters may call: those that users register, and some of the language itself.

A function is known by its name in this process only. A filter that calls a function which this process does not know is
refused where it is read, so a function never travels: a broker or a worker must register it itself.
"""

from __future__ import annotations

import functools
import operator
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tamis.errors import ModelError
from tamis.model.derived.spatial_functions import SPATIAL_FUNCTIONS, holds_between
from tamis.model.types import AttributeType, Boolean, Number, Region, ScalarType, String

__all__ = [
    "COMPARE",
    "DECIMAL",
    "RELATIONS",
    "TEXT_TESTS",
    "Function",
    "find_function",
    "function_modules",
    "function_names",
    "register_function",
    "unregister_function",
]

#: -1, 0 or 1, as the first of two values of one type is below, equal to or above the second.
COMPARE = "COMPARE"
#: The number that an attribute of type decimal stands for; no text says it.
DECIMAL = "DECIMAL"

#: Functions of CQL2 that also compare two attributes, regions or sets of values, and their names in CQL2-JSON.
RELATIONS = {
    **{name: name.lower() for name in SPATIAL_FUNCTIONS if name.startswith("S_")},
    "A_CONTAINS": "a_contains",
    "A_CONTAINEDBY": "a_containedBy",
    "A_EQUALS": "a_equals",
    "A_OVERLAPS": "a_overlaps",
}

#: Whether the first of two texts contains, starts with or ends with the second; case counts.
TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}

_BUILT_IN = frozenset({COMPARE, DECIMAL, *TEXT_TESTS})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}", re.ASCII)
#: Words before a parenthesis that mean something else.
_RESERVED = frozenset(
    {"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "DIV", "CASEI", "ACCENTI", "BBOX"}
    | {"TIMESTAMP", "DATE", "INTERVAL", "POINT", "LINESTRING", "POLYGON", "LINEARRING", "GEOMETRYCOLLECTION"}
    | {"MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "ILIKE", "MATCHES", *_BUILT_IN}
)
_RESERVED_PREFIXES = ("S_", "RCC_", "T_", "A_", "V_", "IP_")


@dataclass(frozen=True)
class Function:
    """A registered function: its name, the callable, and the types of its arguments and its result.

    ``takes`` is None when the arguments may be of any scalar type.
    """

    name: str
    compute: Callable[..., Any]
    returns: ScalarType
    takes: tuple[AttributeType, ...] | None = None
    #: The module that registered the function: importing it registers the function again.
    module: str = ""


_registered: dict[str, Function] = {}


def register_function(
    name: str, function: Callable[..., Any], *, returns: ScalarType, takes: Sequence[ScalarType] | None = None
) -> None:
    """Register a function that filters of this process can call: ``name(attribute, 3) > 2``.

    The function must be pure: the same arguments give the same result, at any time and in any process. It gets
    canonical values (a timestamp is microseconds since 1970, a number an int, a float or a Fraction), is never called
    with a missing one, and returns a value of the type ``returns``, or None for "unknown". When it raises, or returns
    something else, the condition is unknown and a RuntimeWarning says so. Without ``takes`` any scalar values are
    passed to it.

    Functions are never sent anywhere. A broker refuses a filter that calls one unless its own process registered it,
    and Spark's workers import the module that registered the function.

    >>> from tamis.model.types import Number, String
    >>> register_function("digits", lambda text: sum(map(str.isdigit, text)), returns=Number(), takes=[String()])
    >>> from tamis.model.language.parse import parse
    >>> parse("digits(plate) > 2")
    Calculated(op='>', operands=(Call(name='digits', args=(Property(name='plate'),)), 2), negated=False, span=(0, 17))
    >>> unregister_function("digits")
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ModelError(f"a function's name has up to 64 letters, digits, dots and underscores, not {name!r}")
    if name.upper() in _RESERVED or name.upper().startswith(_RESERVED_PREFIXES):
        raise ModelError(f"the language itself uses the name {name}, or names that begin so")
    kinds: tuple[AttributeType, ...] = (returns, *(takes or ()))
    if not callable(function) or not all(isinstance(kind, ScalarType) for kind in kinds):
        raise ModelError(f"{name}: a function is callable, and its types are scalar ones such as tamis.Number()")
    module = str(sys._getframe(1).f_globals.get("__name__", "__main__"))
    new = Function(name, function, returns, None if takes is None else tuple(takes), module)
    registered = _registered.get(name)
    if registered is not None and _origin(registered) != _origin(new):
        raise ModelError(f"a function called {name} is registered already; unregister it first")
    _registered[name] = new


def unregister_function(name: str) -> None:
    """Unregister a function: filters that call it can no longer be compiled, and conditions with it are unknown.

    >>> unregister_function("no_such_function")
    Traceback (most recent call last):
    tamis.errors.ModelError: no function called no_such_function is registered
    """
    if _registered.pop(name, None) is None:
        raise ModelError(f"no function called {name} is registered")


def find_function(name: str) -> Function | None:
    """Return a function that this process knows; None for any other name."""
    return _built_in.get(name) or _registered.get(name)


def function_names() -> tuple[str, ...]:
    """Return the names of all functions that filters may call, ascending."""
    return (COMPARE, *TEXT_TESTS, *sorted(_registered))


def function_modules() -> tuple[str, ...]:
    """Return the modules whose functions are registered, ascending: importing them registers the functions again.

    A function of a script or a notebook has no module that another process could import; it is left out.
    """
    return tuple(sorted({function.module for function in _registered.values()} - {"__main__"}))


def _origin(function: Function) -> tuple[object, ...]:
    """Return an identity of a function that stays the same if its module is imported again."""
    compute = function.compute
    name = getattr(compute, "__qualname__", repr(compute))
    # A lambda, or a function of a function, shares its name with others.
    origin: object = getattr(compute, "__code__", compute) if "<" in name else compute.__module__
    return origin, name, function.returns, function.takes


def _order(first: Any, second: Any) -> int:
    return int(first > second) - int(first < second)


#: What the functions say of two sets of values.
_OF_SETS: dict[str, Callable[[set[Any], set[Any]], bool]] = {
    "A_CONTAINS": set.issuperset,
    "A_CONTAINEDBY": set.issubset,
    "A_EQUALS": set.__eq__,
    "A_OVERLAPS": lambda first, second: not first.isdisjoint(second),
}


def _relation(name: str) -> Function:
    """Return the function that compares two attributes, which are regions or sets of values."""
    if name in _OF_SETS:
        return Function(name, lambda first, second: _OF_SETS[name](set(first), set(second)), Boolean())
    return Function(name, functools.partial(holds_between, name), Boolean(), (Region(), Region()))


_built_in = {COMPARE: Function(COMPARE, _order, Number()), DECIMAL: Function(DECIMAL, _order, Number())}
_built_in |= {name: _relation(name) for name in RELATIONS}
_built_in |= {name: Function(name, test, Boolean(), (String(), String())) for name, test in TEXT_TESTS.items()}
