"""The façade: every promised name is there, documented, and imported late."""

from __future__ import annotations

import pytest

import tamis


@pytest.mark.parametrize("name", tamis.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(tamis, name) is not None
    assert getattr(tamis, name).__doc__


def test_the_table_of_homes_is_the_list() -> None:
    assert sorted([*tamis._HOME_OF, "__version__"]) == sorted(tamis.__all__)
    assert dir(tamis) == sorted(tamis.__all__)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'tamis' has no attribute 'nothing'"):
        tamis.nothing  # noqa: B018
