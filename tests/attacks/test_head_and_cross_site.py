"""Attack: HEAD, or an image on any web page, takes the events out of a subscription's queue.

HEAD is refused, a request that a page of another site caused is refused, no answer may be used by other origins, and
to read a stream acknowledges nothing unless the reader asks for that or proves that it got the messages.
"""

from __future__ import annotations

from typing import Any

import pytest

from tamis.web.app import ENDPOINTS
from tests.attacks.callers import raw
from tests.server.processes import BrokerProcess, ask, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("pages")
    config = f'data = "{directory / "data"}"\norigins = ["https://console.example"]\n'
    with running(BrokerProcess(directory, config)) as (process,):
        yield process


def queue(broker: BrokerProcess, id: str) -> str:
    """Have a subscription with two waiting events; return where its stream is."""
    made = ask(f"{broker.url}/v1/subscriptions", "POST", {"id": id, "filter": f"{id} > 0"})
    assert made.status == 201
    assert ask(f"{broker.url}/v1/events", "POST", [{id: 1}, {id: 2}]).status == 200
    return f"{broker.url}/v1/subscriptions/{id}"


def waiting(place: str) -> int:
    return int(ask(place).json["waiting"])


#: What monitors ask with HEAD, and what has nothing to take.
WATCHED = {"/healthz", "/metrics"}

GETS = sorted({path for method, path, _ in ENDPOINTS if method == "GET" and path not in WATCHED})


@pytest.mark.parametrize("path", GETS)
def test_head_is_refused(broker: BrokerProcess, path: str) -> None:
    answer = ask(broker.url + path.replace("{id}", "x"), "HEAD")
    assert answer.status == 405
    allowed = {method.strip() for method in answer.headers["allow"].split(",")}
    assert allowed == {method for method, place, _ in ENDPOINTS if place == path}


def test_head_takes_nothing_from_a_queue(broker: BrokerProcess) -> None:
    place = queue(broker, "head")
    assert ask(f"{place}/events?ack=auto", "HEAD").status == 405
    assert waiting(place) == 2


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, _ in ENDPOINTS])
def test_what_another_site_caused_is_refused(broker: BrokerProcess, method: str, path: str, site: str) -> None:
    place, body = broker.url + path.replace("{id}", "x"), {} if method == "POST" else None
    answer = ask(place, method, body, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors", Sec_Fetch_Dest="image")
    assert (answer.status, "other sites" in answer.json["error"]) == (403, True)


def test_an_image_on_a_page_takes_nothing_from_a_queue(broker: BrokerProcess) -> None:
    place = queue(broker, "image")
    assert ask(f"{place}/events?ack=auto&limit=2", Sec_Fetch_Site="cross-site").status == 403
    assert ask(f"{place}/events?limit=2").status == 200  # an old browser, which says nothing of sites
    assert waiting(place) == 2


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec_Fetch_Site": "same-origin"},
        {"Sec_Fetch_Site": "none"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "https://console.example"},
    ],
    ids=["curl", "own page", "address bar", "allowed origin"],
)
def test_others_are_served(broker: BrokerProcess, headers: dict[str, str]) -> None:
    assert ask(f"{broker.url}/v1/subscriptions", **headers).status == 200


def test_no_answer_is_for_other_origins(broker: BrokerProcess) -> None:
    paths = ["/", "/console/api.js", "/console/none", "/leaflet/leaflet.js", "/openapi.json", "/healthz", "/metrics"]
    paths += ["/v1/events", "/v1/events/", "/v1/subscriptions/none", "/nowhere"]
    for path in paths:
        answer = raw(broker.port, f"GET {path}", "Host: 127.0.0.1").partition(b"\r\n\r\n")[0].lower()
        assert answer.count(b"cross-origin-resource-policy: same-origin") == 1, (path, answer)
        assert answer.count(b"content-security-policy: ") == 1, (path, answer)


def test_reading_acknowledges_nothing(broker: BrokerProcess) -> None:
    place = queue(broker, "plain")
    first = ask(f"{place}/events?limit=2").body
    assert first.count(b"data: ") == 2
    assert ask(f"{place}/events?limit=2").body == first
    assert ask(f"{place}/events?limit=2&after=0-0").body == first
    assert waiting(place) == 2


def test_last_event_id_acknowledges_what_it_names(broker: BrokerProcess) -> None:
    place = queue(broker, "proof")
    cursor = ask(f"{place}/log").json["messages"][0]["cursor"]
    assert ask(f"{place}/events?limit=1", Last_Event_ID=cursor).body.count(b"data: ") == 1
    assert waiting(place) == 1
    epoch = cursor.partition("-")[0]
    assert ask(f"{place}/events?limit=0", Last_Event_ID=f"{epoch}-999999").status == 200
    assert waiting(place) == 0
    assert ask(f"{broker.url}/v1/events", "POST", {"proof": 3}).status == 200
    assert b'"proof":3' in ask(f"{place}/events?limit=1").body  # a number from nowhere acknowledges nothing to come


def test_a_reader_may_ask_that_writing_is_acknowledging(broker: BrokerProcess) -> None:
    place = queue(broker, "auto")
    assert ask(f"{place}/events?limit=2&ack=auto").body.count(b"data: ") == 2
    assert waiting(place) == 0
    assert ask(f"{place}/events?ack=yes").status == 400
