"""Attack: names of time zones. None is a path, none means another thing on another machine, and many cost no files."""

from __future__ import annotations

import zoneinfo
from pathlib import Path

import pytest

from tamis.algebra.compiling import compile_source
from tamis.errors import TamisError
from tamis.model.derived import clocks
from tamis.model.schema import Schema

NO_ZONES = [
    *("../../../../etc/passwd", "/etc/passwd", "/usr/share/zoneinfo/UTC", "Europe/../Europe/Paris", "..", ".", ""),
    *("UTC\0", "Europe/Paris\n", "Europe", "a" * 5_000, "é", "C:\\x", "tzdata.zi", "zone.tab", "+05:00"),
    *("localtime", "posixrules", "Factory", "right/UTC", "posix/Europe/Paris"),
]


@pytest.mark.parametrize("name", NO_ZONES)
def test_what_is_not_a_zone_is_refused(name: str) -> None:
    document = {"op": "t_weekday", "args": [{"property": "at"}, "Mon", name]}
    for source in (document, f"T_WEEKDAY(at, 'Mon', '{name}')"):
        with pytest.raises(TamisError, match="there is no time zone"):
            compile_source(source, Schema(), learns=True)


def test_a_zone_is_read_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library keeps eight zones; with more, each event had a file read for each zone."""
    read: list[str] = []
    real = zoneinfo.ZoneInfo

    def reading(name: str) -> zoneinfo.ZoneInfo:
        read.append(name)
        return real.no_cache(name)

    monkeypatch.setattr(zoneinfo, "ZoneInfo", reading)
    clocks.find_zone.cache_clear()
    names = sorted(name for name in zoneinfo.available_timezones() if name not in NO_ZONES)[:100]
    for moment in range(3):
        for name in names:
            clocks.clock_time(moment * 10**15, name)
    assert read == names
    clocks.find_zone.cache_clear()


def test_the_database_has_zones() -> None:
    """The names above are not refused because there is no database."""
    assert Path(zoneinfo.TZPATH[0]).is_absolute()
    assert clocks.clock_time(0, "Europe/Paris") == clocks.clock_time(3_600_000_000, "UTC")
