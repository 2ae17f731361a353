"""The errors and omissions of the papers, each with its counterexample and the test that proves it.

The list is data: ``errata.toml`` beside this module. Items are numbered by paper (Z, M, S, R, D), and docstrings and
tests cite them by these numbers. ``python scripts/concordance.py`` writes docs/papers/errata.md from the same list.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Final, NamedTuple

__all__ = ["ERRATA", "Erratum"]


class Erratum(NamedTuple):
    """What a paper states, what is true, and the test below ``tests`` that shows it.

    ``numbers`` is a second test, which computes the numbers of ``shown`` where the first does not.
    """

    item: str
    paper: str
    stated: str
    shown: str
    test: str
    numbers: str = ""

    @property
    def tests(self) -> tuple[str, ...]:
        """The tests that show the case and compute its numbers."""
        return tuple(filter(None, (self.test, self.numbers)))


def _read() -> tuple[Erratum, ...]:
    text = resources.files(__package__).joinpath("errata.toml").read_text(encoding="utf-8")
    return tuple(Erratum(**entry) for entry in tomllib.loads(text)["errata"])


ERRATA: Final = _read()
