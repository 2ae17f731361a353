"""The map of ``tamis demo``: the earthquakes of a week, and the subscriptions that each of them matches."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.engine import Engine, Matches
    from tamis.model.subscription import SubscriptionId

__all__ = ["check_place", "open_page", "write_map"]

#: Attributes that are not shown with an event: the map shows its position.
_HIDDEN = ("epicentre", "lon", "lat")


def check_place(path: Path) -> None:
    """Refuse a path that cannot be written, before anything is computed."""
    from tamis.errors import ModelError

    if path.is_dir() or not path.parent.is_dir():
        problem = "it is a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise ModelError(f"{path}: the map cannot be written: {problem}; choose another path with --map")


def write_map(path: Path, events: Any, engine: Engine, matches: Matches, questions: dict[SubscriptionId, str]) -> None:
    """Write the map of all events and matches as one HTML file that reads nothing from elsewhere."""
    from tamis.errors import ModelError
    from tamis.model.language.compiler import compile_text
    from tamis.plots.event_map import AskedRows, event_map, regions_of

    rows: dict[SubscriptionId, list[int]] = {id: [] for id in questions}
    for row in range(events.num_rows):
        for id in matches.of(row):
            rows[id].append(row)
    subscriptions = [
        AskedRows(id, text, regions_of(compile_text(text, engine.schema).filters), rows[id])
        for id, text in questions.items()
    ]
    subscriptions.sort(key=lambda subscription: -len(subscription.rows))
    page = event_map(
        _dots(events),
        subscriptions,
        _outlines(),
        title="A week of earthquakes, and the subscriptions that they match",
        note="U.S. Geological Survey, February 2018; outlines: Natural Earth, U.S. Census Bureau",
    )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ModelError(
            f"{path}: the map cannot be written: {error.strerror}; choose another path with --map"
        ) from error


def open_page(path: Path) -> bool:
    """Open a file in the local browser; return False if there is no browser."""
    import webbrowser

    return webbrowser.open(path.resolve().as_uri())


def _dots(events: Any) -> list[Any]:
    from tamis.cli.screen import jsonable
    from tamis.plots.event_map import Dot

    shown_names = [name for name in events.column_names if name not in _HIDDEN]
    rows = zip(events["lon"].to_pylist(), events["lat"].to_pylist(), events["mag"].to_pylist(), strict=True)
    facts = events.select(shown_names).to_pylist()
    return [
        Dot(lon, lat, _width(mag), {name: value for name, value in jsonable(fact).items() if value is not None})
        for (lon, lat, mag), fact in zip(rows, facts, strict=True)
    ]


def _width(mag: float | None) -> float:
    """Return how wide a dot is in pixels.

    >>> _width(None), _width(2), _width(6)
    (4, 6.0, 22.0)
    """
    return 4 if mag is None else round(4 + 0.5 * max(mag, 0) ** 2, 1)


def _outlines() -> Any:
    """Return the rings of the map that the console shows, too."""
    import msgspec

    from tamis.model.geojson import from_geojson
    from tamis.plots.event_map import rings_of

    world = msgspec.json.decode((files("tamis") / "web" / "console" / "world.geojson").read_bytes())
    return [ring for feature in world["features"] for ring in rings_of(from_geojson(feature["geometry"]))]
