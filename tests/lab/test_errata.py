"""Every error that the report lists is held by a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tamis_lab.errata import ERRATA, Erratum
from tamis_lab.registry import PAPERS

TESTS = Path(__file__).resolve().parents[1]
#: A copying error in a table of measurements changes nothing that code could do.
WITHOUT_TEST = {"S.3.12"}


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.item)
def test_the_test_exists(erratum: Erratum) -> None:
    assert erratum.paper in PAPERS
    if erratum.item not in WITHOUT_TEST:
        file, name = erratum.test.split("::")
        assert re.search(rf"^def {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_items_are_named_once() -> None:
    items = [erratum.item for erratum in ERRATA]
    assert len(items) == len(set(items)) > 45
    assert {erratum.item for erratum in ERRATA if not erratum.test} == WITHOUT_TEST
