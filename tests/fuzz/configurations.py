"""Random configurations of a broker: TOML with wrong types, wrong names, wrong files and damaged text.

A configuration is read and checked, and its schema is read. Only a `TamisError` may refuse it.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tamis.errors import TamisError
from tamis.runtime.broker.config import BrokerConfig, read_config
from tests.fuzz.harness import Area, damaged_text, document, main

GOOD = """name = "east"
host = "127.0.0.1"
port = 8080
data = "data"
schema = "schema.json"
retention = 3600.0
max_backlog = 1000
require_tokens = true
hosts = ["east.example"]
[[links]]
name = "west"
url = "https://west.example"
policy = "covering"
token_file = "west.token"
ca_file = "ca.pem"
namespaces = ["open"]
[[tenants]]
namespace = "acme"
policy = "region = 'eu'"
[auth.jwt]
issuer = "https://login.example"
audience = "tamis"
keys = "jwks.json"
"""

VALUES = [
    *("1", "-1", "0", "1.5", "nan", "inf", "true", "[]", "{}", '""', '"x"', '"../../etc/passwd"', "1979-05-27"),
    *(
        '["a", 1]',
        '"\\u0000"',
        '"http://x"',
        "9" * 30,
        "9" * 5_000,
        "[" * 2_000,
        '"' + "x" * 9_000 + '"',
        "{a = 1}",
        "0x1F",
    ),
]
NAMES = [*BrokerConfig.__struct_fields__, "unknown", '""', "links", "auth.jwt.keys_url", "a.b"]


class Source(NamedTuple):
    """The text of a configuration, and of the schema that it names."""

    config: str
    schema: str


def make(rng: random.Random) -> Source:
    """Return a configuration."""
    lines = GOOD.splitlines()
    for _ in range(rng.choice([0, 1, 2, 3])):
        at = rng.randrange(len(lines))
        key = lines[at].partition(" = ")[0]
        lines[at] = rng.choice(
            [f"{key} = {rng.choice(VALUES)}", f"{rng.choice(NAMES)} = {rng.choice(VALUES)}", "", lines[at - 1]]
        )
    text = "\n".join(lines)
    if rng.random() < 0.3:
        text = damaged_text(rng, text, '"=[]{}.\n# ')
    types = {
        name: rng.choice([{"type": "number", "lo": 0}, {"type": "vector", "n": 3}, document(rng)]) for name in "ab"
    }
    schema = json.dumps({"attributes": types} if rng.random() < 0.7 else document(rng))
    return Source(text, damaged_text(rng, schema, '{}[]",:') if rng.random() < 0.2 else schema)


@cache
def _directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="tamis-fuzz-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    (directory / "west.token").write_text("secret")
    return directory


def treat(source: Source) -> str:
    """Read a configuration as `tamis serve --config` does."""
    path = _directory() / "broker.toml"
    path.write_text(source.config, encoding="utf-8", errors="surrogatepass")
    (_directory() / "schema.json").write_text(source.schema, encoding="utf-8", errors="surrogatepass")
    try:
        config = read_config(path).check()
    except TamisError as error:
        if not str(error):
            raise AssertionError("an error without words") from error
        return f"refused: {type(error).__name__}"
    try:
        if config.schema and os.path.isfile(config.schema):
            config.read_schema()
    except TamisError:
        return "schema refused"
    return "taken"


AREA = Area("configurations", make, treat)

if __name__ == "__main__":
    sys.exit(main(AREA))
