"""The local time of a time zone as a number on an axis: microseconds since Monday 00:00.

Two moments have the same clock time when clocks are put back; no moment has the times that are skipped. The rules are
those of the time zone database on this machine. Outside the years 1 to 9999 clocks show UTC.
"""

from __future__ import annotations

import datetime as dt
import functools
import zoneinfo
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tamis.model.columns import Column
from tamis.model.subscription import Clock
from tamis.model.types import Number
from tamis.model.value_set import ValueSet
from tamis.model.values import Value

__all__ = ["clock_column", "clock_name", "clock_of_event", "clock_time", "find_zone", "is_clock", "moment_for"]

_PREFIX, _SEPARATOR = "clock\0", "\0"
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_WEEK, _QUARTER = 7 * _DAY, _HOUR // 4
_SINCE_1972 = 730 * _DAY
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST, _LAST = -62_135_596_800_000_000 + _DAY, 253_402_300_799_999_999 - _DAY
#: Days between a Monday and 1970-01-01.
_THURSDAY = 3


@functools.lru_cache(maxsize=1_024)
def find_zone(name: str) -> zoneinfo.ZoneInfo:
    """Return a time zone of the database; `KeyError` or `ValueError` when there is none of this name.

    All zones stay in memory: the library keeps eight, and reads the file of any other for each event. Names that mean
    something else on another machine, and clocks that count leap seconds, are not zones.
    """
    if name in ("localtime", "posixrules", "Factory") or name.startswith(("posix/", "right/")):
        raise ValueError(name)
    return zoneinfo.ZoneInfo(name)


def clock_time(moment: int, zone: str) -> int:
    """Return the clock time of a moment.

    >>> clock_time(0, "UTC") // 86_400_000_000, clock_time(0, "Europe/Berlin") % 86_400_000_000 // 3_600_000_000
    (3, 1)
    """
    return (moment + _offset(moment, zone) + _THURSDAY * _DAY) % _WEEK


def _offset(moment: int, zone: str) -> int:
    """Return how far the clocks of a zone are ahead of UTC, in microseconds."""
    if not _FIRST <= moment <= _LAST:
        return 0
    utc = _EPOCH + dt.timedelta(microseconds=moment)
    offset = utc.astimezone(find_zone(zone)).utcoffset()
    assert offset is not None
    return offset // dt.timedelta(microseconds=1)


def clock_name(zone: str, attribute: str) -> str:
    """Return the name of the axis of an attribute's clock time."""
    return f"{_PREFIX}{zone}{_SEPARATOR}{attribute}"


def is_clock(name: str) -> bool:
    """Whether a name is that of an axis of clock times."""
    return name.startswith(_PREFIX)


def _parts(name: str) -> tuple[str, str]:
    zone, _, attribute = name.removeprefix(_PREFIX).partition(_SEPARATOR)
    return zone, attribute


def clock_of_event(event: Mapping[str, Value], name: str) -> int | None:
    """Return the clock time of an event on an axis; None when it has none."""
    zone, attribute = _parts(name)
    moment = event.get(attribute)
    return clock_time(moment, zone) if isinstance(moment, int) else None


def clock_column(columns: Mapping[str, Column], name: str) -> Column | None:
    """Return the clock times of all rows of a table; None when it has no such column.

    Clocks change on full quarters of an hour since 1972, so the offset is looked up once for each quarter that occurs.
    """
    zone, attribute = _parts(name)
    column = columns.get(attribute)
    if column is None or not isinstance(column.values, np.ndarray) or column.values.dtype != np.int64:
        return None
    moments: npt.NDArray[np.int64] = np.where(column.present, column.values, 0)
    steps = np.where(moments >= _SINCE_1972, moments - moments % _QUARTER, moments)
    different, inverse = np.unique(steps, return_inverse=True)
    offsets = np.array([_offset(step, zone) for step in different.tolist()], np.int64)
    ahead = offsets[inverse.reshape(-1)] + _THURSDAY * _DAY
    return Column(Number(), (moments % _WEEK + ahead) % _WEEK, column.present)


def moment_for(allowed: ValueSet, clocks: Sequence[Clock]) -> int | None:
    """Return a moment in a set whose clock times are allowed; None when none of those tried is."""
    starts = [start[0] for start, _ in allowed.intervals() if start is not None] or [0]
    for begin in starts[:8]:
        for hour in range(7 * 24 + 1):
            moment: int = begin + hour * _HOUR
            fits = (clock_time(moment, clock.zone) in clock.allowed for clock in clocks)
            if moment in allowed and all(fits):
                return moment
    return None
