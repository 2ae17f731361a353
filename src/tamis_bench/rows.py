"""One measured number is a `Row`; goals stand beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

__all__ = ["MEASURES", "Measure", "Row", "find_goal"]


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: its unit, and whether more is better."""

    name: str
    unit: str
    title: str
    more_is_better: bool = True


#: In the order in which they are printed.
MEASURES: Final = {
    measure.name: measure
    for measure in (
        Measure("match", "events/s", "events matched per second, a table at a time"),
        Measure("match 256", "events/s", "the same in tables of 256 events"),
        Measure("match 2 threads", "events/s", "tables of 65,536 events on two threads; the ratio is to one thread"),
        Measure("pairs", "pairs/s", "relations of two regions per second"),
        Measure("evaluations", "per event", "relations evaluated for an event", False),
        Measure("build", "subscriptions/s", "subscriptions loaded per second, all at once"),
        Measure("insert", "subscriptions/s", "subscriptions added per second, a thousand at a time, while matching"),
        Measure("delete", "subscriptions/s", "subscriptions removed per second, one at a time, while matching"),
        Measure("bytes", "B/subscription", "memory of the index, by its own statistics", False),
        Measure("resident", "B/subscription", "growth of the process while it was built", False),
        Measure("p50", "us", "one event as a dict, median", False),
        Measure("p99", "us", "one event as a dict, 99th percentile", False),
        Measure("p50 json", "us", "one event as JSON bytes, median", False),
        Measure("p99 json", "us", "one event as JSON bytes, 99th percentile", False),
        Measure("p50 churn", "us", "the same while subscriptions come and go in this thread, median", False),
        Measure("p99 churn", "us", "99th percentile of that", False),
        Measure("p50 merge", "us", "the same while a merge of all segments runs in its thread, median", False),
        Measure("p99 merge", "us", "99th percentile of that", False),
        Measure("p50 writer", "us", "the same while another thread adds and removes, median", False),
        Measure("p99 writer", "us", "99th percentile of that", False),
        Measure("cover", "questions/s", "boxes or balls for which a cover is sought per second, many at a time"),
        Measure("cover p50", "us", "one subscription for which a cover is sought, median", False),
        Measure("covered p50", "us", "one subscription for which all that it covers is sought, median", False),
        Measure("recall", "share", "of the boxes that are covered, those for which a cover was found"),
        Measure("reduce", "s", "a whole set reduced: covered, subsumed, merged", False),
        Measure("cold start", "s", "a new process: import, subscribe, first match; kernels are in the cache", False),
        Measure("keys", "points/s", "cells to Hilbert keys"),
        Measure("cells", "points/s", "Hilbert keys to cells"),
        Measure("ranges", "boxes/s", "boxes of cells to ranges of keys"),
        Measure("table add", "ranges/s", "ranges added to a range table, with what is new"),
        Measure("table remove", "ranges/s", "ranges removed from it, with what is lost"),
        Measure("table look-up", "keys/s", "keys looked up in it"),
        Measure("serve load", "subscriptions/s", "subscriptions made at a broker over loopback, durable"),
        Measure(
            "serve", "events/s", "events from publisher to reader through a broker, in frames of up to 256, durable"
        ),
        Measure("serve single", "events/s", "the same, one event at a time, 64 under way"),
        Measure(
            "serve cpu",
            "us/event",
            "processor time of the broker for an event in a frame; load does not change it",
            False,
        ),
        Measure("serve clients cpu", "us/event", "the same of publisher and readers together", False),
        Measure("serve single cpu", "us/event", "the same for a single event", False),
        Measure("serve p50", "ms", "from the call of publish to the reader, at half of that load, median", False),
        Measure("serve p99", "ms", "99th percentile of that", False),
        Measure("serve p99 beside", "ms", "the same at a quarter of it, with one more reader that reads all", False),
        Measure("serve p99 stalled", "ms", "the same when that reader stalls and its queue grows", False),
        Measure("serve memory", "MB", "memory of the broker's process at the end", False),
        Measure("webhook", "events/s", "events that a webhook delivered to a receiver, signed, and acknowledged"),
        Measure("webhook cpu", "us/event", "processor time of the broker for one of them", False),
        Measure("bridge in", "events/s", "messages of NATS JetStream that become events, each once, durable"),
        Measure("bridge in cpu", "us/event", "processor time of the bridge for one of them", False),
        Measure("bridge out", "events/s", "deliveries that become messages of NATS JetStream, each once, durable"),
        Measure("bridge out cpu", "us/event", "processor time of the bridge for one of them", False),
        Measure("network load", "subscriptions/s", "subscriptions made in batches until every broker knows them"),
        Measure("network subscribing", "us/subscription", "processor time of the broker at which events enter", False),
        Measure("network subscribing inner", "us/subscription", "the same of a broker that only forwards", False),
        Measure("network subscribing home", "us/subscription", "the same of a broker that takes subscriptions", False),
        Measure("network", "events/s", "events published at one broker and delivered at others, in frames"),
        Measure("network cpu", "us/event", "processor time of the broker at which events are published", False),
        Measure("network cpu inner", "us/event", "the same of a broker that only forwards, on average", False),
        Measure("network cpu home", "us/event", "the same of a broker that holds the subscriptions, on average", False),
        *(
            Measure(f"network {part} {hops} hops", "ms", f"from publish to the reader over {hops} links, {name}", False)
            for hops in range(4)
            for part, name in (("p50", "median"), ("p99", "99th percentile"))
        ),
        Measure("network bytes subscription", "B", "on all links together, for one subscription", False),
        Measure("network bytes event", "B", "on all links together, for one event", False),
        Measure("network memory", "MB", "memory of the broker at which events are published, at the end", False),
        Measure("network memory inner", "MB", "the same of a broker that only forwards, on average", False),
        Measure("network memory home", "MB", "the same of a broker that holds the subscriptions, on average", False),
        Measure("insertion", "us", "one subscription to ranges and into a table of that size, in Python", False),
    )
}


@dataclass(frozen=True, slots=True)
class Row:
    """One number; ``rate`` is None when there is none, and ``note`` says why.

    ``ratio`` is this system's rate over that of the linear scan in the same run (more than 1: faster than it); for
    several threads it is over that of one thread, for a network over that of one broker.
    """

    work: str
    n: int
    system: str
    what: str
    rate: float | None
    ratio: float | None = None
    goal: float | None = None
    note: str = ""

    @property
    def unit(self) -> str:
        """The unit of ``rate``."""
        return MEASURES[self.what].unit

    def as_json(self) -> dict[str, Any]:
        """Return plain values, numbers with four digits."""
        plain = asdict(self) | {"unit": self.unit}
        return {name: _rounded(value) if isinstance(value, float) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Row:
        """Return the row that `as_json` gave."""
        return cls(**{name: value for name, value in plain.items() if name != "unit"})


def _rounded(number: float) -> float:
    """Keep four digits.

    >>> _rounded(1234567.0), _rounded(0.123456)
    (1235000.0, 0.1235)
    """
    return float(f"{number:.4g}")


_LARGE: Final = (100_000, 1_000_000)

#: ``{(what, work, n): at least or at most this}``, for tamis itself; work None is any.
_GOALS: Final[dict[tuple[str, str | None, int], float]] = {
    ("match", "uniform4", 100_000): 2.5e6,
    ("match", "uniform4", 1_000_000): 1e6,
    ("match", "zipf4", 100_000): 600e3,
    ("match", "zipf4", 1_000_000): 85e3,
    ("match", "sparse20", 100_000): 400e3,
    ("match", "sparse20", 1_000_000): 100e3,
    ("match", "stock", 100_000): 400e3,
    ("match", "stock", 1_000_000): 100e3,
    ("match", "dense20", 1_000_000): 50e3,
    ("match 256", "dense20", 1_000_000): 30e3,
    ("match", "ads122", 3_000_000): 20e3,
    ("match", "boolean", 100_000): 100e3,
    ("p50", "uniform4", 100_000): 15.0,
    ("p50", "dense20", 1_000_000): 167.0,
    ("p50 json", "uniform4", 100_000): 6.0,
    **{("build", work, n): 4e3 for work in ("mixed", "boolean") for n in _LARGE},
    **{("build", None, n): 1e6 for n in _LARGE},
    **{(what, None, n): 200e3 for what in ("insert", "delete") for n in _LARGE},
    ("bytes", None, 1_000_000): 100.0,
    ("bytes", "dense20", 1_000_000): 400.0,
    ("bytes", "sparse20", 1_000_000): 160.0,
    **{("bytes", "ads122", n): 200.0 for n in (1_000_000, 3_000_000)},
    ("cover", "boxes4", 1_000_000): 1e6,
    ("cover p50", "boxes4", 1_000_000): 10.0,
    **{(what, "conditions", n): 1_000.0 for what in ("cover p50", "covered p50") for n in _LARGE},
    ("reduce", "boxes4", 1_000_000): 10.0,
    ("serve", "uniform4", 100_000): 20e3,
    ("serve p99", "uniform4", 100_000): 50.0,
    **{("network load", None, n): 5e3 for n in _LARGE},
}


def find_goal(what: str, work: str, n: int) -> float | None:
    """Return the goal of a measure, if it has one.

    >>> find_goal("match", "uniform4", 1_000_000), find_goal("build", "mixed", 100_000), find_goal("p50", "stock", 5)
    (1000000.0, 4000.0, None)
    """
    exact = _GOALS.get((what, work, n))
    return exact if exact is not None or work in ("mixed", "boolean") else _GOALS.get((what, None, n))
