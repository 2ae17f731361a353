"""docs/configuration.md lists every key of a broker's configuration, with its type, default and meaning."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from tamis.runtime.broker.config import BrokerConfig

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configuration_page", ROOT / "scripts" / "configuration_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(script: ModuleType) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == script.page(page), "run: python scripts/configuration_page.py"


def tables_below(struct: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """The classes that a configuration is made of."""
    below = {struct}
    for field in msgspec.structs.fields(struct):
        for inner in (field.type, *getattr(field.type, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                below |= tables_below(inner)
    return below


def test_no_table_is_left_out(script: ModuleType) -> None:
    """``[auth]`` has no key of its own, only a table."""
    documented = set(script.TABLES.values())
    left_out = tables_below(BrokerConfig) - documented
    assert all(script.is_table(key.annotation) for struct in left_out for key in script.keys_of(struct))
    assert len(left_out) == 1


def test_every_key_of_a_table_has_a_row(script: ModuleType) -> None:
    text = script.table()
    for struct in script.TABLES.values():
        for key in script.keys_of(struct):
            assert script.is_table(key.annotation) or f"| `{key.name}` |" in text
        assert {key.name for key in script.keys_of(struct)} == {field.name for field in msgspec.structs.fields(struct)}


def test_a_key_without_a_comment_stops_the_script(script: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "module_without_comments.py"
    path.write_text(
        "import msgspec\n\n\nclass Table(msgspec.Struct):\n    #: What it is.\n    a: int = 1\n    b: int = 2\n"
    )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        with pytest.raises(SystemExit, match=r"Table\.b has no comment"):
            script.keys_of(module.Table)
    finally:
        del sys.modules[path.stem]
