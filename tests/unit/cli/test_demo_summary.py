"""The demonstration of the pipeline ends with sentences whose numbers are those of the reports."""

from __future__ import annotations

from tamis.cli.pipeline.demo import summarise
from tamis.spark.pipelines.report import EventCounts, Report, SubscriptionCounts


def _report(pipeline: str, subscriptions: SubscriptionCounts, events: EventCounts, deliveries: int) -> Report:
    return Report(
        "0.2.0", pipeline, [], subscriptions, events, deliveries, [], [], [], "out", "snapshots", "fingerprint", True
    )


def test_the_sentences_have_the_numbers_of_both_reports() -> None:
    storms = _report(
        "storms", SubscriptionCounts(3_402, 3_398, 3, 1), EventCounts(12_001, 12_001, 12_000, 1, 0), 45_000
    )
    quakes = _report("quakes", SubscriptionCounts(90, 88, 2, 0), EventCounts(1_707, 1_707, 1_707, 0, 0), 2_500)
    assert summarise(storms, quakes, [("Carteret County, NC", 312), ("Dare County, NC", 300)]) == [
        (
            "12,000 reports of storms were matched with 3,398 subscriptions: 45,000 deliveries; Carteret "
            "County, NC has most of the alerts to counties (312)."
        ),
        "1,707 earthquakes were matched with 88 subscriptions: 2,500 deliveries.",
        "6 subscriptions or events were refused; each of them is in a quarantine with its reason.",
    ]
