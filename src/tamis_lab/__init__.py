"""The laboratory: every table and figure of the five papers, run again on the product's own structures.

An `Experiment` says what it varies (``configs``), what it does with one configuration (``run``), what the paper claims
of the rows (``judge``) and how they look (``charts``). `running` runs configurations as Spark tasks, `results` keeps
rows and where they came from, `report` makes one page of it all. Pictures and verdicts are made from the rows alone.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.2.0"
