"""Attack: a token for one namespace asks every endpoint about another namespace, and about everything.

Each endpoint is a row of `QUESTIONS`. Bob gets the same answer about alice's namespace and ids as about unused names.
His own namespace, in which the same ids exist, shows nothing of hers, and none of his requests changes what she has. A
principal with access to her names sees them, so the marks that the tests look for are really there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tamis.web.app import ENDPOINTS
from tests.attacks.callers import Guarded, guarded_broker
from tests.server.processes import Answer, wait_until

HERS, HIS, UNUSED = "acme", "umbrella", "none"

#: Her queue and her webhook; his have the same ids. A queue that a webhook reads cannot be taken from.
QUEUE, HOOKED, ABSENT = "alices", "alicew", "absent"

#: All that is hers has one of these in its name or value.
MARKS = (b"alice", HERS.encode())

#: ``{(method, path): body}``; ``$id`` and ``$space`` stand for an id and a namespace, which is in the query, too.
QUESTIONS: dict[tuple[str, str], Any] = {
    ("POST", "/v1/events"): {"n": 1},
    ("GET", "/v1/events"): None,
    ("GET", "/v1/producers/{id}"): None,
    ("GET", "/v1/deliveries"): None,
    ("POST", "/v1/subscriptions"): {"filter": "n > 0", "id": "$id", "namespace": "$space"},
    ("GET", "/v1/subscriptions"): None,
    ("GET", "/v1/subscriptions/{id}"): None,
    ("PUT", "/v1/subscriptions/{id}"): {"filter": "n > 1"},
    ("DELETE", "/v1/subscriptions/{id}"): None,
    ("GET", "/v1/subscriptions/{id}/events"): None,
    ("GET", "/v1/subscriptions/{id}/log"): None,
    ("POST", "/v1/subscriptions/{id}/acknowledge"): {"cursor": "$cursor"},
    ("POST", "/v1/subscriptions/{id}/take"): {"consumer": "w"},
    ("POST", "/v1/subscriptions/{id}/settle"): {"consumer": "w", "acknowledge": ["$cursor"]},
    ("GET", "/v1/subscriptions/{id}/dead"): None,
    ("POST", "/v1/subscriptions/{id}/dead/replay"): {"upto": "$cursor"},
    ("POST", "/v1/subscriptions/{id}/dead/drop"): {"upto": "$cursor"},
    ("PUT", "/v1/subscriptions/{id}/webhook"): {"url": "https://localhost/other"},
    ("GET", "/v1/subscriptions/{id}/webhook"): None,
    ("DELETE", "/v1/subscriptions/{id}/webhook"): None,
    ("POST", "/v1/subscriptions/{id}/webhook/rotate"): {},
    ("POST", "/v1/subscriptions/{id}/webhook/suspend"): {},
    ("POST", "/v1/subscriptions/{id}/webhook/resume"): {},
    ("GET", "/v1/webhooks"): None,
    ("POST", "/v1/explain"): {"id": "$id", "event": {"n": 1}, "namespace": "$space"},
    ("POST", "/v1/trial"): {"filter": "n > 0", "learn": True, "namespace": "$space"},
    ("POST", "/v1/matches"): {"event": {"n": 1}, "namespace": "$space"},
    ("POST", "/v1/comparison"): {"brokers": 2, "policies": ["covering"], "namespace": "$space"},
    ("GET", "/v1/schema"): None,
    ("DELETE", "/v1/schema"): None,
    ("GET", "/v1/statistics"): None,
    ("GET", "/v1/audit"): None,
    ("GET", "/v1/links"): None,
    ("PUT", "/v1/links/{name}"): {},
    ("DELETE", "/v1/links/{name}"): None,
    ("POST", "/v1/links/{name}/skip"): {},
    ("POST", "/v1/links/{name}/resume"): {},
    ("GET", "/healthz"): None,
    ("GET", "/metrics"): None,
}

#: Questions that change nothing, by who is shown something of alice.
SHOWN = {
    **dict.fromkeys(
        [
            *[("GET", "/v1/events"), ("GET", "/v1/deliveries"), ("GET", "/v1/subscriptions"), ("GET", "/v1/webhooks")],
            *[("GET", f"/v1/subscriptions/{{id}}{part}") for part in ("", "/events", "/log", "/dead", "/webhook")],
            *[("POST", "/v1/trial"), ("POST", "/v1/matches"), ("POST", "/v1/explain"), ("GET", "/v1/schema")],
        ],
        "alice",
    ),
    **dict.fromkeys([("POST", "/v1/comparison")], "admin"),
    **dict.fromkeys([("GET", "/v1/statistics"), ("GET", "/v1/audit"), ("GET", "/metrics")], "admin"),
}

#: A tenant, and the admin of a tenant.
WHO = ("bob", "bobs-admin")


def question(guarded: Guarded, who: str, row: tuple[str, str], space: str, *, is_used: bool = True) -> Answer:
    """Ask what a row asks, about one namespace; with ``is_used`` about the ids that alice and bob have in theirs."""
    method, path = row
    id = (HOOKED if "webhook" in path else QUEUE) if is_used else ABSENT
    text = json.dumps(QUESTIONS[row]).replace("$space", space).replace("$id", id).replace("$cursor", "1-1")
    place = path.replace("{id}", id).replace("{name}", id)
    limit = 1 if path.endswith("{id}/events") else 1_000  # a stream ends after ``limit`` messages
    return guarded.ask(who, f"{place}?namespace={space}&limit={limit}", method, json.loads(text))


def neutral(answer: Answer, space: str) -> tuple[int, bytes]:
    """Return an answer without the words of its question."""
    body = answer.body
    for name in (QUEUE, HOOKED, ABSENT):
        body = body.replace(name.encode(), b"ID")
    return answer.status, body.replace(space.encode(), b"SPACE")


def furnish(guarded: Guarded, who: str, space: str) -> None:
    """Give a tenant a queue with messages and a dead letter, and a suspended webhook, as far as it has none."""
    for id in (QUEUE, HOOKED):
        fields = {"metadata": {"of": who}, "max_deliveries": 1 if id == QUEUE else 0}
        body = {"filter": f"{who}_n >= 0 OR n > 0", "id": id, "namespace": space, **fields}
        assert guarded.ask(who, "/v1/subscriptions", "POST", body).status in (201, 409)
    place = f"/v1/subscriptions/{HOOKED}/webhook"
    url = {"url": f"https://localhost/{who}", "secret": None}
    assert guarded.ask(who, f"{place}?namespace={space}", "PUT", url).status == 200
    assert guarded.ask(who, f"{place}/suspend?namespace={space}", "POST", {}).status == 200
    events = [{f"{who}_n": n, "n": 1, "who": who} for n in range(2)]
    assert guarded.ask(who, f"/v1/events?namespace={space}", "POST", events).status == 200
    place = f"/v1/subscriptions/{QUEUE}"
    taking = {"consumer": f"{who}-worker", "seconds": 0.01}

    def has_letter() -> bool:
        assert guarded.ask(who, f"{place}/take?namespace={space}", "POST", taking).status == 200
        return bool(guarded.ask(who, f"{place}/dead?namespace={space}").json["letters"])

    wait_until(has_letter, "a dead letter")
    assert guarded.ask(who, f"/v1/events?namespace={space}", "POST", events).status == 200  # some may be taken


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory: Path = tmp_path_factory.mktemp("apart")
    with guarded_broker(directory, '[webhooks]\nhosts = ["localhost"]\n') as broker:
        broker.add("admin", is_admin=True)
        broker.add("alice", namespaces=(HERS,))
        broker.add("bob", namespaces=(HIS,))
        broker.add("bobs-admin", namespaces=(HIS,), is_admin=True)
        furnish(broker, "alice", HERS)
        batch = f"/v1/events?namespace={HERS}&producer={QUEUE}&number=7"
        assert broker.ask("alice", batch, "POST", {"alice_n": 7}).status == 200
        furnish(broker, "bob", HIS)
        yield broker


def belongings(guarded: Guarded) -> list[bytes]:
    """Return what alice sees of what is hers."""
    parts = ("", "/log", "/dead", "/webhook")
    rows = [("GET", f"/v1/subscriptions/{{id}}{part}") for part in parts] + [("GET", "/v1/schema")]
    answers = [question(guarded, "alice", row, HERS) for row in rows]
    assert [answer.status for answer in answers] == [200] * len(rows)
    return [answer.body for answer in answers]


def test_every_endpoint_has_a_question() -> None:
    assert set(QUESTIONS) == {(method, path) for method, path, _ in ENDPOINTS}


@pytest.mark.parametrize("row", SHOWN, ids=" ".join)
def test_a_principal_with_access_sees_her_names(guarded: Guarded, row: tuple[str, str]) -> None:
    answer = question(guarded, SHOWN[row], row, HERS)
    assert answer.status == 200, answer.body
    assert any(mark in answer.body for mark in MARKS)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("row", QUESTIONS, ids=" ".join)
def test_her_names_are_answered_like_unused_names(guarded: Guarded, row: tuple[str, str], who: str) -> None:
    answer = neutral(question(guarded, who, row, HERS), HERS)
    assert answer == neutral(question(guarded, who, row, UNUSED, is_used=False), UNUSED)
    assert not any(mark in answer[1] for mark in MARKS)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("row", sorted(QUESTIONS, key=lambda row: row not in SHOWN), ids=" ".join)
def test_his_own_namespace_shows_nothing_of_hers(guarded: Guarded, row: tuple[str, str], who: str) -> None:
    if row not in SHOWN:  # the one before may have removed something
        furnish(guarded, "bob", HIS)
    status, body = neutral(question(guarded, who, row, HIS), HIS)
    assert not any(mark in body for mark in MARKS)
    if SHOWN.get(row) == "alice":
        assert status == 200
        assert b"bob" in body


def test_what_is_hers_stays_as_it_is(guarded: Guarded) -> None:
    before = belongings(guarded)
    for row in QUESTIONS.keys() - SHOWN.keys():
        for who in WHO:
            for space in (HERS, HIS):
                question(guarded, who, row, space)
        assert belongings(guarded) == before, row
