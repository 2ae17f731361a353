"""The shared cases sent to a broker process over HTTP: each file's subscriptions and events in one request each.

Each file has a namespace. What a subscription got is read from its log. Cases without a schema are left to
`tests/e2e/test_broker_cases.py`: a broker learns the type of an attribute once. So are events that JSON cannot write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest

from tamis.model.schema import Schema
from tamis.model.types import AttributeType
from tests.case_files import Case, load_cases
from tests.server.processes import Answer, BrokerProcess, ask, running

TYPED = [case for case in load_cases() if case.schema is not None]
SENT = [case for case in TYPED if case.is_json and isinstance(case.event, dict)]
FILES = sorted({case.file for case in SENT})

Brokers = dict[str, BrokerProcess]


def merged_schemas() -> list[tuple[list[str], dict[str, AttributeType]]]:
    """Return the files in as few groups as their attributes allow, each with the attributes of all of its files."""
    groups: list[tuple[list[str], dict[str, AttributeType]]] = []
    for file in FILES:
        schema = next(case.schema for case in SENT if case.file == file)
        assert schema is not None
        for files, attributes in groups:
            if all(attributes.get(name, kind) == kind for name, kind in schema.items()):
                files.append(file)
                attributes.update(schema)
                break
        else:
            groups.append(([file], dict(schema)))
    return groups


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """One broker for each group of files, by the name of the file."""
    directory = tmp_path_factory.mktemp("cases")
    groups = merged_schemas()
    made = []
    for number, (_, attributes) in enumerate(groups):
        path = directory / f"schema{number}.json"
        path.write_text(Schema(attributes).to_json(), encoding="utf-8")
        config = f'name = "cases"\ndata = "{directory / str(number) / "data"}"\nschema = "{path}"\n'
        made.append(BrokerProcess(directory / str(number), config))
    with running(*made):
        yield {file: broker for broker, (files, _) in zip(made, groups, strict=True) for file in files}


def subscribe(broker: BrokerProcess, cases: Sequence[Case], namespace: str, first: int = 0) -> Answer:
    """Subscribe to all cases in one request; the ids are their places."""
    questions = [
        {"filter": case.subscription, "id": first + place, "namespace": namespace} for place, case in enumerate(cases)
    ]
    return ask(f"{broker.url}/v1/subscriptions", "POST", questions)


def publish(broker: BrokerProcess, cases: Sequence[Case], namespace: str) -> Answer:
    return ask(f"{broker.url}/v1/events?namespace={namespace}", "POST", [case.event for case in cases])


def received(broker: BrokerProcess, id: int, namespace: str) -> list[str]:
    """Return the ids of the events that a subscription got."""
    answer = ask(f"{broker.url}/v1/subscriptions/{id}/log?namespace={namespace}&limit=1000")
    assert answer.status == 200, answer.body
    return [message["id"] for message in answer.json["messages"]]


def test_nearly_all_cases_are_sent() -> None:
    assert len(SENT) >= 0.9 * len(load_cases())
    assert len(merged_schemas()) <= 3


@pytest.mark.parametrize("file", FILES)
def test_a_broker_gives_the_answers_of_the_cases(brokers: Brokers, file: str) -> None:
    broker, cases = brokers[file], [case for case in SENT if case.file == file and case.error is None]
    assert len(cases) >= 15
    made = subscribe(broker, cases, file)
    assert made.status == 201, made.body
    published = publish(broker, cases, file)
    assert published.status == 200, published.body
    ids = published.json["ids"]
    assert len(set(ids)) == len(cases)
    wrong = [
        case.name
        for place, case in enumerate(cases)
        if (ids[place] in received(broker, place, file)) is not case.expected
    ]
    assert wrong == []


@pytest.mark.parametrize("file", sorted({case.file for case in SENT if case.error is not None}))
def test_a_broker_refuses_what_the_cases_refuse(brokers: Brokers, file: str) -> None:
    """Either the subscription is refused or the event, and the answer names the culprit."""
    broker, refused = brokers[file], [case for case in SENT if case.file == file and case.error is not None]
    for place, case in enumerate(refused):
        answer = subscribe(broker, [case], f"{file}-refused", place)
        if answer.status == 201:
            answer = publish(broker, [case], f"{file}-refused")
        assert answer.status in (400, 413), (case.name, answer.body)
        assert all(word in answer.json["error"] for word in mentions(case)), (case.name, answer.body)


def mentions(case: Case) -> tuple[str, ...]:
    """Return what the answer must name; half of a surrogate pair is found before the attributes are read."""
    is_text = "\\ud" not in json.dumps([case.subscription, case.event])
    return case.mentions if is_text else ("half of a surrogate pair",)
