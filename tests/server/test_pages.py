"""In a browser nothing runs that a client sent, and on the disk no name becomes a path (promises S12, S22)."""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from urllib.parse import quote

import pytest

import tamis
from tests.server.processes import HANGS, Answer, BrokerProcess, ask, running

#: Text that would do something if any of it were read as markup.
MARKUP = ("<script>alert(1)</script>", "<img src=x onerror=alert(2)>", '"><svg onload=alert(3)>')

#: Names that lead elsewhere if they are taken for paths.
PATHS = ("../../escaped", "..%2f..%2fescaped", "/tmp/escaped", "..\\escaped", "escaped/../../x", ".", "..", "a\0b")


def check_is_inert(answer: Answer) -> None:
    """Only pages are read as pages, and a page runs no script that is not a file of the broker."""
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/console/index.html", "/openapi.json", "/healthz", "/metrics", "/nowhere"])
def test_every_answer_has_a_strict_policy(broker: BrokerProcess, path: str) -> None:
    check_is_inert(ask(broker.url + path))


def test_the_page_has_no_script_and_no_style_in_it(broker: BrokerProcess) -> None:
    page = ask(f"{broker.url}/").body.decode().lower()
    assert page.count("<script") == page.count('<script type="module" src=') + page.count("<script src=") > 0
    assert "<style" not in page
    assert " style=" not in page
    assert "javascript:" not in page
    assert not re.search(r"\son\w+\s*=", page)


@pytest.mark.parametrize("text", MARKUP)
def test_an_error_that_repeats_what_was_sent_is_never_a_page(broker: BrokerProcess, text: str) -> None:
    for answer in (
        ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": text}),
        ask(f"{broker.url}/v1/subscriptions", "POST", {"filter": "a = 1", "namespace": text * 20}),
        ask(f"{broker.url}/v1/events", "POST", text),
        ask(f"{broker.url}/v1/events", "POST", f'{{"{text.replace(chr(34), "")}": NaN}}'),
        ask(f"{broker.url}/v1/subscriptions/{quote(text, safe='')}"),
        ask(f"{broker.url}/v1/subscriptions?limit={quote(text)}"),
        ask(f"{broker.url}/{quote(text)}"),
    ):
        assert 400 <= answer.status < 500
        assert answer.headers["content-type"].startswith("application/json")
        check_is_inert(answer)


def test_no_name_is_a_path(tmp_path: Path) -> None:
    """Ids, namespaces, clients and producers with dots and slashes are names; the broker writes under its root only."""
    root = tmp_path / "home"
    with running(BrokerProcess(root, f'data = "{root / "data"}"')) as (broker,):
        for name in PATHS:
            for body in ({"id": name, "filter": "a = 1"}, {"filter": "a = 1", "namespace": name}):
                assert ask(f"{broker.url}/v1/subscriptions", "POST", body).status in (201, 400)
            place = f"{broker.url}/v1/events?namespace={quote(name, safe='')}&producer={quote(name, safe='')}&number=1"
            assert ask(place, "POST", {"a": 1}).status in (200, 400)
            if name.isprintable():
                with tamis.connect(broker.url, client=name) as client:
                    client.subscribe("a = 1", id=name, durable=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert {path.name for path in root.iterdir()} == {"data", "broker.toml", "log"}
    names = {"broker.sqlite", "broker.sqlite-wal", "broker.sqlite-shm", "head", "lock", "tokens.json", "reserve"}
    assert {path.name for path in (root / "data").iterdir()} <= names


@pytest.mark.parametrize(
    "path",
    [
        "/console/../../app.py",
        "/console/%2e%2e/app.py",
        "/console/..%2fapp.py",
        "/console/%2e%2e%2f%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/console//etc/passwd",
        "/leaflet/../../__init__.py",
        "/leaflet/%2e%2e/__init__.py",
    ],
)
def test_no_address_leaves_the_directory_of_the_console(broker: BrokerProcess, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=HANGS)
    connection.request("GET", path)  # urllib would tidy the path up
    answer = connection.getresponse()
    assert answer.status == 404, answer.read()[:100]
    connection.close()
