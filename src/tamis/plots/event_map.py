"""A map as one HTML file: events as dots, the subscriptions that they match, and the regions of those.

The file loads nothing else: outlines, data, style and script are in it, and its content security policy enforces
that. It works without tamis and without a network.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec
import shapely

from tamis.model.subscription import AllOf, AnyOf, Filter, Geometric, Predicate, Spatial, SubscriptionId

__all__ = ["AskedRows", "Dot", "event_map", "regions_of", "rings_of"]

#: Corners, longitude first; the first ring of a region is its border, others are holes.
Rings: TypeAlias = list[list[list[float]]]

#: What an HTML parser would take for the end of a script.
_UNSAFE = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True)
class Dot:
    """An event: where it is, how wide its dot is in pixels, and the facts that a click shows."""

    lon: float
    lat: float
    size: float
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AskedRows:
    """A subscription: its text, the regions it speaks of, and the rows of the events that match it."""

    id: SubscriptionId
    filter: str
    regions: list[Rings]
    rows: list[int]


def event_map(
    dots: Iterable[Dot], subscriptions: Iterable[AskedRows], outlines: Rings, *, title: str, note: str = ""
) -> str:
    """Return a page that shows events on a map, and for each subscription the events that match it.

    Parameters
    ----------
    dots
        The events, in the order to which the rows of ``subscriptions`` refer.
    subscriptions
        The subscriptions.
    outlines
        The rings of the base map.
    title, note
        What the map shows, and where its data come from.
    """
    data = msgspec.json.encode({"events": list(dots), "subscriptions": list(subscriptions), "outlines": outlines})
    style, script = _part("map.css"), _part("map.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "note": html.escape(note),
        "style": style,
        "script": script,
        "data": _harmless(data.decode()),
    }
    # Split once, so that a text which looks like a placeholder stays what it is.
    first, *rest = _part("map.html").split("{{")
    pieces = (piece.split("}}", 1) for piece in rest)
    return first + "".join(parts[name] + after for name, after in pieces)


def rings_of(shape: shapely.Geometry) -> Rings:
    """Return the rings of a polygon or of several, rounded to about a hundred metres.

    >>> rings_of(shapely.box(0, 0, 1, 1))
    [[[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]]
    """
    rings = [
        ring
        for part in shapely.get_parts(shape)
        if part.geom_type == "Polygon"
        for ring in (part.exterior, *part.interiors)
    ]
    return [shapely.get_coordinates(ring).round(3).tolist() for ring in rings]


def regions_of(filters: Iterable[Filter]) -> list[Rings]:
    """Return the regions that filters speak of, each once."""
    regions = dict.fromkeys(
        region for filter in filters for part in (*filter.constraints, filter.rest) if part for region in _regions(part)
    )
    return [rings_of(region) for region in regions]


def _regions(part: Predicate) -> Iterable[shapely.Polygon]:
    if isinstance(part, Spatial):
        yield part.region
    elif isinstance(part, Geometric):
        yield part.geometry
    elif isinstance(part, AllOf | AnyOf):
        for inner in part.parts:
            yield from _regions(inner)


def _part(name: str) -> str:
    return (files("tamis") / "plots" / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _harmless(data: str) -> str:
    r"""Return JSON that no HTML parser mistakes for markup.

    >>> _harmless('"</script>"')
    '"\\u003c/script\\u003e"'
    """
    return data.translate(_UNSAFE)
