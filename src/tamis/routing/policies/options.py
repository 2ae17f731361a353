"""The options of link policies: every name with its type, default, range and meaning.

This is the one list of them. ``broker.toml``, `Network`, ``tamis network``, ``tamis tune`` and the console all read
options through it, and docs/policies.md prints it. A policy names the options that it has
(`tamis.routing.policies.policy`); options that belong to one finder of covers are allowed where that finder is chosen.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tamis.errors import ModelError

__all__ = ["FINDER_OPTIONS", "OPTIONS", "Option", "Value", "read_options", "split_options", "written_options"]

Value = bool | int | float | str

#: The name of each type in messages and tables.
_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option; numbers lie from ``low`` to ``high``, texts are among ``choices`` if there are any."""

    name: str
    default: Value
    help: str
    low: float = 0
    high: float = math.inf
    choices: tuple[str, ...] = ()

    @property
    def written_default(self) -> str:
        """The default as it is written."""
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        word = _WORDS[type(self.default)]
        if isinstance(self.default, bool | str):
            return word
        low, high = (f"{bound:,}".removesuffix(".0") for bound in (self.low, self.high))
        return f"{word} from {low} to {high}" if self.high < math.inf else f"{word}, {low} or more"

    def read(self, value: object) -> Value:
        """Return a value of this option from TOML, JSON or text; raise `ModelError` if it is not allowed.

        >>> OPTIONS["epsilon"].read("0.1"), OPTIONS["simplify"].read("false"), OPTIONS["axes"].read(2)
        (0.1, False, '2')
        """
        kind = type(self.default)
        converted: object = value
        if kind is bool and isinstance(value, str):
            converted = {"true": True, "false": False}.get(value.lower(), value)
        elif kind in (int, float) and isinstance(value, str | int) and not isinstance(value, bool):
            converted = _number(value, kind)
        elif kind is str and isinstance(value, int) and not isinstance(value, bool):
            converted = str(value)
        if type(converted) is not kind or not self._is_allowed(converted):
            raise ModelError(f"{self.name} is {self.allowed}, not {value!r}")
        return converted

    def _is_allowed(self, value: Value) -> bool:
        if isinstance(value, str):
            return not self.choices or value in self.choices
        return isinstance(value, bool) or self.low <= value <= self.high


def _number(value: str | int, kind: type) -> object:
    try:
        return kind(value)
    except (ValueError, OverflowError):
        return value


_ALL: Final = (
    Option("simplify", True, "rewrite a subscription with fewer conditions before it is compared and announced"),
    Option(
        "finder",
        "exact",
        "the index that proposes covers; every proposal is proved",
        choices=("exact", "zcurve", "projection", "cells", "linear"),
    ),
    Option("pieces", 500, "proofs of one question to the index, in pieces of about 50 microseconds", 1, 1_000_000),
    Option("epsilon", 0.05, "share of the search space that a search on the curve leaves out", 0, 0.999),
    Option("bits", 0, "an axis has 2 to the power of this many cells; 0: 7 for finder zcurve, 8 for cells", 0, 32),
    Option("curve", "z", "the curve that orders the points", choices=("z", "hilbert", "gray")),
    Option("probes", 0, "cubes after which a search on the curve ends; 0: no limit", 0, 2**31),
    Option("truncated", False, "search the rectangle of Lemma 3.1 instead of the largest cubes"),
    Option("k", 0, "vectors that balls are projected on; 0: by dimension", 0, 4_096),
    Option("seed", 0, "draws the vectors", 0, 2**31),
    Option("draw", "orthonormal", "how vectors are drawn", choices=("orthonormal", "gaussian", "cube")),
    Option(
        "pick", "largest", "the cover that is reported: the first found, or the oldest", choices=("largest", "smallest")
    ),
    Option("budget", 500, "pieces that one proof of subsumption may fall into", 1, 1_000_000),
    Option("near", 100, "filters that may overlap a question; with more of them subsumption is not tried", 2, 100_000),
    Option("gap", 0.5, "share of a merged range that may be filled gaps between its parts", 0, 1),
    Option(
        "false_positives", 0.0, "share of values, or of keys, that merging may add; 0: `gap` or `key_gap` decides", 0, 1
    ),
    Option("axes", "3", "attributes with cells: how many, or their names joined with +"),
    Option("groups", 1, "curves, each through its own axes; an event must pass on all of them", 1, 8),
    Option("key_gap", 0, "keys between two ranges that are announced along with them", 0, 2**31),
    Option("ranges", 0, "ranges that a link may hold: `key_gap` grows until they are no more; 0: no limit", 0, 2**31),
)

OPTIONS: Final[dict[str, Option]] = {option.name: option for option in _ALL}

#: The options that belong to one finder of covers.
FINDER_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "exact": (),
    "zcurve": ("epsilon", "bits", "curve", "probes", "truncated"),
    "projection": ("k", "seed", "draw", "pick"),
    "cells": ("bits", "axes", "groups"),
    "linear": (),
}


def split_options(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and the options of a policy as they were written, ``name:option=value,option=value``.

    >>> split_options("mics:axes=lon+lat,bits=6")
    ('mics', {'axes': 'lon+lat', 'bits': '6'})
    """
    name, _, text_of_options = text.partition(":")
    options: dict[str, str] = {}
    for part in text_of_options.split(",") if text_of_options else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or key in options:
            raise ModelError(f"policy {name!r}: write its options as option=value, each once, not {part!r}")
        options[key] = value
    return name.strip(), options


def read_options(policy: str, allowed: Iterable[str], chosen: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of a policy's options; the `ModelError` for an unknown option lists the allowed ones."""
    names = list(allowed)
    read: dict[str, Value] = {}
    for name, value in chosen.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            finders = [
                finder for finder, own_options in FINDER_OPTIONS.items() if name in own_options and "finder" in names
            ]
            needs = f"; it needs finder={' or finder='.join(finders)}" if finders else ""
            choice = f"its options: {', '.join(names)}" if names else "it has none"
            raise ModelError(f"policy {policy!r} has no option {name!r}{hint}{needs}; {choice}")
        try:
            read[name] = OPTIONS[name].read(value)
        except ModelError as error:
            raise ModelError(f"policy {policy!r}: {error}") from None
    return read


def written_options(name: str, options: Mapping[str, Value]) -> str:
    """Return a policy with options as `split_options` reads it.

    >>> written_options("zcurve", {"epsilon": 0.1, "truncated": True})
    'zcurve:epsilon=0.1,truncated=true'
    """
    parts = [f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in options.items()]
    return f"{name}:{','.join(parts)}" if parts else name
