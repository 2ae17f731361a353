"""Every error that the report lists is held by a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tamis_lab.errata import ERRATA, Erratum
from tamis_lab.registry import PAPERS

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.item)
def test_the_test_exists(erratum: Erratum) -> None:
    text = (TESTS / erratum.file).read_text(encoding="utf-8")
    assert re.search(rf"^def {erratum.test}\(", text, re.MULTILINE)
    assert erratum.paper in PAPERS


def test_items_are_named_once() -> None:
    items = [erratum.item for erratum in ERRATA]
    assert len(items) == len(set(items)) > 25
