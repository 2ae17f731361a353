"""The catalogue of source bugs: one module per subsystem, each with its ``BUGS``."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from tests.planted.bug import Bug

#: The subsystems, and how many bugs each has at least.
SUBSYSTEMS = {
    "kernels": 12,
    "algebra": 6,
    "regions": 6,
    "covering": 8,
    "language": 6,
    "snapshot": 6,
    "store": 5,
    "spark": 6,
    "overlay": 5,
    "web": 6,
    "reduction": 4,
    "text": 10,
    "webhooks": 12,
    "links": 6,
    "takeover": 6,
    "deadletters": 6,
    "bridges": 6,
    "matching": 40,
    "templates": 12,
}

BUGS: list[Bug] = [
    replace(bug, subsystem=subsystem)
    for subsystem in SUBSYSTEMS
    for bug in import_module(f"tests.planted.bugs.{subsystem}").BUGS
]
