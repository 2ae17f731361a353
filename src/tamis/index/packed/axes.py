"""Axes: the dimensions of the space of boxes, and the position of filters and events on them.

An attribute gets the axes that its constraints need, when they first need them:

========== ===========================================================================================
NUMBER     a number, timestamp or boolean as float64
CODE       a string that some filter compares for equality, as a number of its own; others are -1
KEY        the first six bytes of a string, which keep its order
PRESENT    0.0 when there is a value of any type
X, Y       the bounding box of a region or point, an interval each
X_MIN, ... the four sides of that box, a number each
COORDINATE one of the first coordinates of a vector
========== ===========================================================================================

An event lies at ``[low, high]`` on each axis, a point wherever float64 can say it; NaN where the value is
missing. On NUMBER and CODE axes a point decides; on the others, and when a number falls between two
float64, the axes only propose and the raw values decide.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
import shapely

from tamis.errors import ModelError
from tamis.model.derived.clocks import clock_of_event, is_clock
from tamis.model.derived.formulas import event_value, formula_of, is_formula
from tamis.model.schema import Schema
from tamis.model.types import Form, Vector
from tamis.model.types.string import KEY_BYTES
from tamis.model.values import Number, Value

__all__ = [
    "COORDINATES",
    "SIDES",
    "AttributePart",
    "Axes",
    "AxesState",
    "Axis",
    "float_above",
    "float_below",
    "string_key",
]

#: Coordinates of a vector that get an axis; more axes would hardly rule out more.
COORDINATES = 4


class AttributePart(enum.Enum):
    """The part of an attribute that an axis represents."""

    NUMBER = "number"
    CODE = "code"
    KEY = "key"
    PRESENT = "present"
    X = "x"
    Y = "y"
    X_MIN = "x_min"
    Y_MIN = "y_min"
    X_MAX = "x_max"
    Y_MAX = "y_max"
    COORDINATE = "coordinate"


#: Where the low and the high end of an event on an axis of a region stand among min x, min y, max x, max y.
SIDES = {
    AttributePart.X: (0, 2),
    AttributePart.Y: (1, 3),
    AttributePart.X_MIN: (0, 0),
    AttributePart.Y_MIN: (1, 1),
    AttributePart.X_MAX: (2, 2),
    AttributePart.Y_MAX: (3, 3),
}

#: The axes on which a point lies at its x, and at either coordinate; in tuples, which are searched by identity.
_X = (AttributePart.X, AttributePart.X_MIN, AttributePart.X_MAX)
_X_OR_Y = (*_X, AttributePart.Y, AttributePart.Y_MIN, AttributePart.Y_MAX)

#: Expressions that get an axis: each is computed for every event. The others are evaluated for candidates only.
MOST_FORMULAS = 256

#: The form of the values that an axis can show.
_FORMS: dict[AttributePart, Form] = {
    AttributePart.NUMBER: Form.NUMBER,
    AttributePart.CODE: Form.TEXT,
    AttributePart.KEY: Form.TEXT,
    AttributePart.COORDINATE: Form.VECTOR,
    **dict.fromkeys(SIDES, Form.REGION),
}


#: Types of the values of an event whose place needs no look at its axes.
_FLOATS = frozenset({float})


class Axis(NamedTuple):
    """One axis: a part of an attribute; ``i`` is the coordinate of a vector."""

    attribute: str
    part: AttributePart
    i: int = 0


#: (attribute, part, i) of every axis in order, and the strings of every attribute in the order of their codes.
AxesState = tuple[list[tuple[str, str, int]], dict[str, list[str]]]


class Axes:
    """The axes in use, numbered in the order of their first use, and the codes of strings."""

    def __init__(self) -> None:
        self._number: dict[Axis, int] = {}
        #: The axes by number; it only grows, so a reader may walk it while a writer adds one.
        self._order: list[Axis] = []
        #: The attributes of the axes if all are plain numbers; None once there is any other axis.
        self._numbers: list[str] | None = []
        #: The axes that only show whether there is a value.
        self.of_presence: set[int] = set()
        #: The names of computed values among the attributes.
        self._derived: set[str] = set()
        self._n_formulas = 0
        #: ``{attribute: {string: code}}``; a code is never reused, so a reader may use an older state.
        self.codes: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[int, Axis]]:
        return enumerate(self._order)

    def number(self, attribute: str, part: AttributePart, i: int = 0) -> int:
        """Return the number of an axis; a new axis is created."""
        axis = Axis(attribute, part, i)
        number = self._number.get(axis)
        if number is None:
            number = self._number[axis] = len(self._order)
            if attribute not in self._derived and (is_clock(attribute) or is_formula(attribute)):
                self._derived.add(attribute)
                self._n_formulas += is_formula(attribute)
            self._order.append(axis)
            is_number = part is AttributePart.NUMBER and attribute not in self._derived
            self._numbers = [*self._numbers, attribute] if is_number and self._numbers is not None else None
            if part is AttributePart.PRESENT:
                self.of_presence.add(number)
        return number

    def has_room(self, name: str) -> bool:
        """Whether a computed value has an axis, or can get one."""
        return name in self._derived or self._n_formulas < MOST_FORMULAS

    def attribute(self, number: int) -> str:
        """Return the attribute of an axis."""
        return self._order[number].attribute

    def code(self, attribute: str, text: str) -> int:
        """Return the code of a string; a new string gets a code."""
        codes = self.codes.setdefault(attribute, {})
        return codes.setdefault(text, len(codes))

    def to_state(self) -> AxesState:
        """Return the axes as plain values."""
        axes = [(axis.attribute, axis.part.value, axis.i) for axis in self._order]
        return axes, {name: list(codes) for name, codes in self.codes.items()}

    @classmethod
    def from_state(cls, state: Any) -> Axes:
        """Return the axes that `to_state` described; raise `ModelError` if the description is not valid."""
        axes = cls()
        try:
            described, codes = msgspec.convert(state, AxesState)
            for attribute, part, i in described:
                axes.number(attribute, AttributePart(part), i)
                if is_formula(attribute):
                    formula_of(attribute)
        except (msgspec.ValidationError, ValueError) as error:
            raise ModelError(f"not a description of axes: {error}") from None
        if len(axes) != len(described) or any(i < 0 for _, _, i in described):
            raise ModelError("not a description of axes: duplicate axis, or a negative coordinate")
        for name, texts in codes.items():
            axes.codes[name] = {text: code for code, text in enumerate(texts)}
        return axes

    def find_unfit(self, schema: Schema) -> str | None:
        """Return an attribute that has an axis which its type in a schema cannot have; None: there is none."""
        for axis in self._order:
            kind = schema.get(axis.attribute)
            if kind is None or axis.part is AttributePart.PRESENT:
                continue
            if kind.element.form is not _FORMS[axis.part] or (isinstance(kind, Vector) and axis.i >= kind.n):
                return axis.attribute
        return None

    def place(self, event: Mapping[str, Value], n_axes: int) -> tuple[list[float], list[float], bool]:
        """Return the low and high ends of an event (the same list if it is a point), and whether numbers are points."""
        if self._numbers is not None and len(self._numbers) == n_axes:
            values = [event.get(name) for name in self._numbers]
            if _FLOATS.issuperset(map(type, values)):
                return values, values, True  # type: ignore[return-value]
        low = high = [math.nan] * n_axes
        is_point = True
        for number, axis in enumerate(self._order):
            value = event.get(axis.attribute)
            if value is None and axis.attribute in self._derived:
                value = _derived_value(event, axis.attribute)
            if value is None or number >= n_axes:
                continue
            if type(value) is float and axis.part is AttributePart.NUMBER:  # the usual cases, without a call
                low[number] = high[number] = value
                continue
            if type(value) is shapely.Point and axis.part in _X_OR_Y:
                low[number] = high[number] = value.x if axis.part in _X else value.y
                continue
            lower, upper = self._interval(axis, value)
            if lower != upper:
                high = low.copy() if high is low else high
                is_point &= axis.part is not AttributePart.NUMBER and type(value) is not tuple
            low[number], high[number] = lower, upper
        return low, high, is_point

    def with_computed(self, event: Mapping[str, Value]) -> dict[str, Value]:
        """Return an event with its values on computed axes, which may need all elements of repeated attributes."""
        derived = {name: _derived_value(event, name) for name in self._derived}
        return {**event, **{name: value for name, value in derived.items() if value is not None}}

    def _interval(self, axis: Axis, value: Value) -> tuple[float, float]:
        part = axis.part
        if type(value) is tuple and part is not AttributePart.PRESENT:
            return self._hull(axis, value)
        if part is AttributePart.NUMBER and isinstance(value, int | float):
            nearest = float(value)
            return (nearest, nearest) if nearest == value else (float_below(value), float_above(value))
        if part is AttributePart.CODE and isinstance(value, str):
            code = float(self.codes.get(axis.attribute, {}).get(value, -1))
            return code, code
        if part is AttributePart.KEY and isinstance(value, str):
            key = string_key(value)
            return key, key
        if part in SIDES and isinstance(value, shapely.Geometry):
            bounds = shapely.bounds(value)
            low, high = SIDES[part]
            return float(bounds[low]), float(bounds[high])
        if part is AttributePart.COORDINATE and isinstance(value, np.ndarray):
            return float(value[axis.i]), float(value[axis.i])
        if part is AttributePart.NUMBER and isinstance(value, Fraction):
            return float_below(value), float_above(value)
        return 0.0, 0.0

    def _hull(self, axis: Axis, elements: tuple[Value, ...]) -> tuple[float, float]:
        """Return an interval around all elements of a repeated attribute; NaN when there is none."""
        ends = [self._interval(axis, element) for element in elements]
        return min((low for low, _ in ends), default=math.nan), max((high for _, high in ends), default=math.nan)


def _derived_value(event: Mapping[str, Value], name: str) -> Value | None:
    return clock_of_event(event, name) if is_clock(name) else event_value(event, name)


def string_key(text: str) -> float:
    """Return a number that keeps the order of strings: ``a <= b`` gives ``string_key(a) <= string_key(b)``.

    >>> string_key("abc") < string_key("abd") < string_key("b")
    True
    """
    return float(int.from_bytes(text.encode()[:KEY_BYTES].ljust(KEY_BYTES, b"\0"), "big"))


def float_below(value: Number) -> float:
    """Return the largest float64 that is not above a number.

    >>> float_below(2**53 + 1) == 2.0**53
    True
    """
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)


def float_above(value: Number) -> float:
    """Return the smallest float64 that is not below a number."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)
