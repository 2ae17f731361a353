"""Every error that the report lists is held by a test that exists, and its numbers stand in that test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tamis_lab.errata import ERRATA, Erratum
from tamis_lab.registry import PAPERS

TESTS = Path(__file__).resolve().parents[1]
#: A number of a sentence: not part of a name, a power or a section; thousands have commas.
NUMBER = re.compile(r"(?<![\w.^,/\[])\d{1,3}(?:,\d{3})*(?:\.\d+)?(?![\w^\]]|,\d|\.\d)(?:\s?%)?")
#: Sections, lemmas and propositions are not measurements.
NAMES = re.compile(r"(?:Proposition|Theorem|Lemma|Fig\.|section|sections|Table) [\d.]+")
#: What one cannot miscount.
SMALL = 10
#: Parameters that the code has, not results.
PARAMETERS = {"D.3.2": {30.0}}


def source_of(test: str) -> str:
    """Return the code of a test with its parameters, without its docstring: that computes nothing."""
    file, name = test.split("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    [function] = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == name]
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    return ast.unparse(function)


def numbers_of(text: str) -> set[float]:
    """Return the numbers of a sentence that a reader would want computed."""
    numbers = set()
    for word in NUMBER.findall(NAMES.sub("", text)):
        value = float(word.rstrip(" %").replace(",", ""))
        if value >= SMALL or value != int(value):
            numbers.add(value)
    return numbers


def literals_of(source: str) -> set[float]:
    """Return the numbers in code, and the same as percentages."""
    values = {
        float(word.replace("_", "").replace(",", "")) for word in re.findall(r"\d[\d_,]*\d(?:\.\d+)?|\d+\.?\d*", source)
    }
    return values | {round(100 * value, 6) for value in values}


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.item)
def test_the_tests_exist(erratum: Erratum) -> None:
    assert erratum.paper in PAPERS
    for test in erratum.tests:
        assert source_of(test)


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.item)
def test_the_numbers_are_those_of_its_tests(erratum: Erratum) -> None:
    available = set().union(*(literals_of(source_of(test)) for test in erratum.tests))
    missing = numbers_of(erratum.shown) - available - PARAMETERS.get(erratum.item, set())
    assert not missing


def test_numbers_are_read_as_people_do() -> None:
    text = "1,240 of 0.3 million, 14 % (d = 4), Proposition 2.1, [10,20], 2^12 and 99.9 %."
    assert numbers_of(text) == {1240.0, 0.3, 14.0, 99.9}
    assert {1240.0, 14.0, 0.3} <= literals_of("assert x == 1_240 and y == 0.14 and z < 0.3")


def test_items_are_named_once() -> None:
    items = [erratum.item for erratum in ERRATA]
    assert len(items) == len(set(items)) > 60
    assert all(erratum.test for erratum in ERRATA)
