"""A plugin of pytest for `make test`: of the expensive tests, a sample that changes with each commit.

`SHARES` and `TURNS` name them. The commit that is checked out chooses; what is not drawn is marked ``soak``, so
that ``-m "not soak"`` leaves it out. What failed in the run before, and all tests of a file that was edited since the
commit, are always in the sample. `make soak` and ``make test SAMPLE=no`` run all of them, and so does pytest when it
is called without this plugin.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["SHARES", "TURNS", "commit_of", "drawn", "edited_files", "mark_all", "share_of"]

#: The start of a test's id, and of how many such tests in a file one is run, at least. The longest start that fits
#: counts.
SHARES: dict[str, int] = {
    "tests/spark/": 3,
    "tests/spark/test_cases.py": 4,
    "tests/spark/test_house_rules.py": 1,
    "tests/simulation/test_seeds.py::test_seeds": 3,
    "tests/simulation/test_seeds.py::test_every_policy_in_every_weather": 3,
    "tests/simulation/test_batches.py": 2,
    "tests/simulation/test_small_steps.py": 2,
    "tests/planted/test_planted_bugs.py": 3,
    "tests/server/test_openapi.py": 3,
    "tests/server/test_broker_cases.py": 3,
    "tests/e2e/test_broker_cases.py": 3,
    "tests/test_notebooks.py::test_a_notebook_prints_what_it_shows": 3,
}
#: Tests that prove the like at some cost, each by the start of its id: one of each row is run.
TURNS: tuple[tuple[str, ...], ...] = (
    (
        "tests/spark/test_cluster.py",
        "tests/spark/test_cluster_connect.py",
        "tests/spark/test_driver_kill.py",
    ),
    (
        "tests/server/test_chaos.py::test_brokers_that_are_killed_lose_nothing",
        "tests/server/test_postgres_store.py::test_no_kill_of_the_server_loses_or_repeats_a_commit",
    ),
    (
        "tests/server/test_kafka.py::test_each_message_is_one_event_when_bridge_and_broker_are_killed",
        "tests/server/test_nats.py::test_each_message_is_one_event_when_bridge_broker_and_server_are_killed",
        "tests/server/test_nats.py::test_two_bridges_of_one_name_repeat_nothing_and_lose_nothing",
        "tests/server/test_nats.py::test_a_cluster_of_three_loses_one_and_each_message_is_one_event",
        "tests/server/test_mqtt.py::test_nothing_is_lost_when_bridge_and_brokers_are_killed",
    ),
    (
        "tests/property/test_county_pairs.py::test_all_pairs_whose_boxes_touch[counties]",
        "tests/property/test_region_agreement.py::test_a_hundred_thousand_pairs",
        "tests/property/test_exact_relations.py::test_regions_that_nearly_touch",
    ),
    (
        "tests/e2e/test_written_commands.py::test_every_command_of_the_page_runs[README.md]",
        "tests/e2e/test_cli_network.py::test_drawn_ranges_order_the_policies_as_the_paper_does",
        "tests/e2e/test_cli_network.py::test_all_policies_deliver_the_same_and_cost_less_and_less",
    ),
    (
        "tests/unit/algebra/test_balls.py::test_every_small_pair[1-4-radii0]",
        "tests/unit/reduction/test_reduce.py::test_two_thousand_mixed_subscriptions",
        "tests/unit/runtime/test_network.py::test_five_hundred_brokers_and_a_third_of_them_killed",
        "tests/unit/language/test_fuzz.py::test_a_slow_input_is_found",
    ),
)


def share_of(nodeid: str) -> int:
    """Return of how many tests like this one is run."""
    return SHARES[start] if (start := _longest(nodeid, SHARES)) else 1


def drawn(nodeids: Iterable[str], draw: str) -> set[str]:
    """Return the sample of a draw: of each row of `TURNS` one, and of the other tests the share of their file."""
    families: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    sample: set[str] = set()
    for nodeid in nodeids:
        if row := next((row for row in TURNS if nodeid.startswith(row)), ()):
            if nodeid.startswith(min(row, key=lambda start: _lot(draw, start))):
                sample.add(nodeid)
        else:
            families[nodeid.partition("::")[0], _longest(nodeid, SHARES)].append(nodeid)
    for members in families.values():
        members.sort(key=lambda nodeid: _lot(draw, nodeid))
        sample.update(members[: -(-len(members) // share_of(members[0]))])
    return sample


def _longest(nodeid: str, starts: Iterable[str]) -> str:
    """Return the longest of the starts that fit, or nothing."""
    return max((start for start in starts if nodeid.startswith(start)), key=len, default="")


def _lot(draw: str, name: str) -> bytes:
    return hashlib.blake2b(f"{draw} {name}".encode()).digest()


def commit_of(root: Path) -> str:
    """Return the commit that is checked out; without Git, the date."""
    return _git(root, "rev-parse", "HEAD").strip() or dt.datetime.now(dt.UTC).date().isoformat()


def edited_files(root: Path) -> set[str]:
    """Return the files that differ from the commit."""
    return set(_git(root, "diff", "--name-only", "--relative", "HEAD").splitlines())


def _git(root: Path, *words: str) -> str:
    """Return what Git prints: nothing where there is no Git and no repository."""
    try:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def pytest_report_header(config: pytest.Config) -> str:
    return f"sample: that of {commit_of(config.rootpath)[:12]}"


@pytest.hookimpl(tryfirst=True)  # before the option -m is obeyed
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is not drawn."""
    eligible = [item for item in items if item.get_closest_marker("soak") is None]
    sample = drawn([item.nodeid for item in eligible], commit_of(config.rootpath))
    sample.update(config.cache.get("cache/lastfailed", {}) if config.cache else ())
    edited = edited_files(config.rootpath)
    for item in eligible:
        if item.nodeid not in sample and item.nodeid.partition("::")[0] not in edited:
            item.add_marker(pytest.mark.soak)


def mark_all(items: Iterable[pytest.Item]) -> None:
    """Mark every test of which `make test` runs a share, for `make soak`."""
    for item in items:
        if share_of(item.nodeid) > 1 or any(item.nodeid.startswith(row) for row in TURNS):
            item.add_marker(pytest.mark.soak)
