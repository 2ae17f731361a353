"""What to do with each paper in practice: the sentences that open its chapter."""

from __future__ import annotations

from typing import Final

__all__ = ["PRACTICE"]

PRACTICE: Final = {
    "zcurve": (
        (
            "Use covering on links where subscriptions contain one another. The exact index is the default: it "
            "misses no cover."
        ),
        (
            "Use `zcurve` with an epsilon where a broker must bound the work for a new subscription; a cover that "
            "is missed costs an update and never an event. Do not expect it to find covers that are only a little "
            "larger."
        ),
    ),
    "mics": (
        (
            "Use `mics` on links where updates are costly and a few needless events are not: ranges of cells are "
            "short, and covering, merging and subsumption come with them."
        ),
        (
            "Choose few selective attributes, and let the cells follow the events (`tamis tune --cells`): equal "
            "cells waste most of their precision where hardly anything is published."
        ),
        "Do not use cells where nearly every event matches somewhere: there is nothing to hold back.",
    ),
    "crtree": (
        "Use exact relations and the packed index for regions; sampling a boundary saves no time today.",
        ("Simplify predicates that many clients write about the same places: fewer filters are announced and matched."),
    ),
    "projection": (
        (
            "Use random projections to propose covers of balls in many dimensions, and verify every candidate, "
            "the largest ball first. Never verify only one candidate."
        ),
        (
            "Cubes around balls are projections on the axes: a filter as well, which leaves fewer pairs open than "
            "the paper says (claim RP8)."
        ),
    ),
    "drtree": (
        (
            "Use peers where no broker can be trusted or paid for, and events may pass through readers that do "
            "not want them; use brokers where that must not happen."
        ),
        (
            "Take the R* split for fewer needless events, and ten to twenty children per node. A tree per "
            "attribute does not replace it: it reaches a large share of all peers in vain."
        ),
    ),
    "beyond": (
        (
            "Measure with your own subscriptions before you choose: `tamis tune SUBSCRIPTIONS EVENTS` does it for "
            "one link, `tamis network` for a whole tree."
        ),
    ),
}
