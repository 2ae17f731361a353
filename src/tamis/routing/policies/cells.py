"""The cells that a policy works with: which attributes have an axis, how fine they are, how ranges are merged.

Cells are configuration, like the schema: all brokers of a network should have the same, or they forward more events
than necessary (promise R10). By default the first attributes with a domain get an axis. `CellOptions.fitted_to` chooses
better: the attributes that best separate a sample of subscriptions, with cells that follow their bounds and the values
of a sample of events.

Implements: [mics] section 5, content space projection; section 8, attribute groups; section 3.6, merging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tamis.errors import ModelError
from tamis.model.schema import Event, Schema
from tamis.model.subscription import Subscription
from tamis.model.types import Form

if TYPE_CHECKING:
    from tamis.index.mics.space import ContentSpace

__all__ = ["CellOptions"]


@dataclass(frozen=True)
class CellOptions:
    """How cells are laid over events and how their ranges are merged.

    Parameters
    ----------
    n_axes, n_groups
        The attributes of one curve, and the number of curves (attribute groups): an event must lie in the ranges of
        each of them. The cells do not distinguish events that differ only in other attributes.
    bits
        An axis has 2 to the power of this many cells.
    gap
        Up to this many keys between two ranges are announced with them: 0 is perfect merging, more is imperfect, with
        fewer ranges and some unneeded events.
    names
        The attributes that get an axis, instead of those that would be chosen.
    false_positives, max_ranges
        Imperfect merging that follows the table: the gap is the largest that adds at most this share of all keys, or
        the smallest that leaves at most this many ranges; 0: ``gap`` as it is.
    spaces
        Content spaces as JSON (`ContentSpace.to_json`), instead of those that follow from the schema.

    Examples
    --------
    >>> from tamis.model.language.compiler import compile_text
    >>> from tamis.model.types import Number
    >>> schema = Schema({"x": Number(0, 8), "y": Number(0, 8), "z": Number(0, 8)})
    >>> [[axis.attribute for axis, _ in one.axes] for one in CellOptions(n_axes=2).spaces_of(schema)]
    [['x', 'y']]
    >>> asked = [compile_text(f"z = {n} AND y > {n}", schema, id=n) for n in range(5)]
    >>> [[axis.attribute for axis, _ in one.axes] for one in CellOptions(n_axes=1).fitted_to(asked).spaces_of(schema)]
    [['z']]
    """

    n_axes: int = 3
    n_groups: int = 1
    bits: int = 8
    gap: int = 0
    spaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    false_positives: float = 0.0
    max_ranges: int = 0

    def __post_init__(self) -> None:
        if min(self.n_axes, self.n_groups, self.bits) < 1 or min(self.gap, self.max_ranges, self.false_positives) < 0:
            raise ModelError(f"cells need axes, groups and bits, and a gap that is not negative: {self}")

    @property
    def grid(self) -> tuple[object, ...]:
        """The options on which both ends of a link must agree."""
        return self.n_axes, self.n_groups, self.bits, self.names, self.spaces

    def fitted_to(self, subscriptions: Sequence[Subscription], events: Sequence[Event] = ()) -> CellOptions:
        """Return the options with the most selective axes of the subscriptions; unchanged if there are none.

        The ends of cells are taken from the bounds of the subscriptions and from the values of the events.
        """
        from tamis.index.mics.projection import group_axes  # late: it loads numba

        if not subscriptions:
            return self
        spaces = group_axes(subscriptions, self.n_groups, self.n_axes, self.bits, events=events, names=self.names)
        return replace(self, spaces=tuple(space.to_json() for space in spaces))

    def spaces_of(self, schema: Schema) -> tuple[ContentSpace, ...]:
        """Return the content spaces, one per group: the configured ones, or the first attributes with a domain."""
        from tamis.index.mics.space import ContentSpace

        if self.spaces:
            return tuple(map(ContentSpace.from_json, self.spaces))
        named = list(self.names) or [name for name in schema if _has_cells(schema, name)]
        named = named[: self.n_axes * self.n_groups]
        groups = [named[number :: self.n_groups] for number in range(self.n_groups)]
        return tuple(
            ContentSpace.from_schema(schema, group, self.bits) for group in groups if group or group is groups[0]
        )


def _has_cells(schema: Schema, name: str) -> bool:
    """Whether an attribute has a domain: a boolean, or a number within bounds."""
    kind = schema[name]
    return kind.form is Form.NUMBER and kind.domain is not None
