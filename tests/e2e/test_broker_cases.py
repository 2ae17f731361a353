"""The named cases through a network: a question at one end, the event at the other."""

from __future__ import annotations

import tamis
from tests.case_files import Case, each_case, load_cases


@each_case([case for case in load_cases() if case.error is None])
def test_answer_of_a_network(case: Case) -> None:
    network = tamis.Network([("here", "between"), ("between", "there")], schema=case.schema)
    reader, writer = network.attach("reader", "here"), network.attach("writer", "there")
    network.subscribe(reader, case.subscription, id="asked")
    network.run()
    network.publish(writer, case.event)
    network.run()
    assert [delivery.subscriptions for delivery in network.deliveries(reader)] == (
        [("asked",)] if case.expected else []
    )
    assert network.statistics().event_messages == (2 if case.expected else 0)
