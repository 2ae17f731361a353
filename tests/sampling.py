"""A plugin of pytest for `make test`: of the expensive tests, a sample that moves on with each commit.

``costs.txt`` names the tests that take long: each has a turn among eight, and the turns cost the same. Of cheaper tests
that are many, `SHARES` names how many are run. The number of the commit on its branch chooses, so eight commits in a
row run everything. What is not drawn is marked ``soak``, so that ``-m "not soak"`` leaves it out. What failed in the
run before, and all tests of a file that was edited since the commit, are always in the sample. `make soak` and
``make test SAMPLE=no`` run all of them, and so does pytest when it is called without this plugin.

``python -m tests.sampling``, after ``PYTEST_ADDOPTS="-p tests.processor_time" make test SAMPLE=no``, writes
``costs.txt`` and prints what each of the next eight samples costs.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = [
    "SHARES",
    "TOGETHER",
    "TURNS",
    "WAITING",
    "costly_tests",
    "drawn",
    "edited_files",
    "mark_all",
    "number_of",
    "seconds_of",
    "share_of",
    "turns",
]

#: The start of a test's id, and of how many such tests in a file one is run. The longest start that fits counts.
SHARES: dict[str, int] = {
    "tests/spark/": 8,
    "tests/spark/test_house_rules.py": 1,
    "tests/simulation/test_seeds.py::test_seeds": 8,
    "tests/simulation/test_seeds.py::test_every_policy_in_every_weather": 8,
    "tests/simulation/test_seeds.py::test_policies_with_options_lose_nothing": 4,
    "tests/simulation/test_batches.py": 4,
    "tests/simulation/test_small_steps.py": 4,
    "tests/contract/test_matchers.py": 8,
    "tests/contract/test_engine_life.py": 4,
    "tests/contract/test_covering.py": 8,
    "tests/contract/test_ball_covering.py": 8,
    "tests/overlay/test_worlds.py": 4,
    "tests/planted/test_planted_bugs.py": 8,
    "tests/server/test_openapi.py": 8,
    "tests/server/test_broker_cases.py": 8,
    "tests/e2e/test_broker_cases.py": 8,
    "tests/server/test_backup.py": 4,
    "tests/attacks/test_multiplied_filters.py": 4,
    "tests/attacks/test_nested_geometry.py": 4,
    "tests/e2e/test_cli.py": 4,
    "tests/e2e/test_cli_cases.py": 4,
    "tests/e2e/test_cli_network.py": 4,
    "tests/browser/test_accessibility.py": 4,
    "tests/browser/test_console.py": 4,
    "tests/bench/": 4,
    "tests/test_notebooks.py::test_a_notebook_prints_what_it_shows": 4,
    "tests/papers/test_drtree.py": 3,
    "tests/papers/test_errata_numbers.py": 3,
    "tests/property/test_algebra_laws.py": 3,
    "tests/property/test_repeated_agreement.py": 3,
    "tests/property/test_three_valued.py": 3,
    "tests/unit/engine/test_shelf.py": 4,
    "tests/unit/index_packed/test_narrow_vectors.py": 4,
    "tests/unit/kernels/test_ring.py": 4,
    "tests/unit/routing/test_cell_records.py": 4,
    "tests/unit/routing/test_policy_options.py": 4,
    "tests/unit/routing/test_summary.py": 4,
}
#: Files whose fixtures cost more than their tests, as a cluster does: all tests of such a file come together.
TOGETHER: tuple[str, ...] = (
    "tests/cloud/test_hadoop_store.py",
    "tests/spark/test_cluster.py",
    "tests/spark/test_cluster_connect.py",
    "tests/spark/test_driver_kill.py",
    "tests/server/test_covering_question.py",
)
#: Tests that wait for the time limits of a broker, and for how many seconds: a process that waits is a core that idles.
WAITING: dict[str, float] = {
    "tests/attacks/test_many_connections.py::test_a_head_that_comes_byte_by_byte_is_cut": 10,
    "tests/attacks/test_peer_slow_connections.py::test_silent_strangers_do_not_keep_peers_out_and_are_cut": 10,
    "tests/attacks/test_json_web_tokens.py::test_a_stream_ends_with_its_token[expiry]": 5,
    "tests/attacks/test_many_connections.py::test_silent_sockets_of_one_address_keep_no_other_out": 10,
    "tests/attacks/test_revocation.py::test_sockets_and_links_are_cut[file broken before": 10,
    "tests/attacks/test_peer_dials_members_only.py::test_what_is_not_a_peer_gets_a_greeting_and_nothing_else": 10,
    "tests/attacks/test_tiny_websocket_frames.py::test_many_small_messages_of_a_client_are_taken": 10,
}
#: The processor seconds of each costly test; ``python -m tests.sampling`` writes it.
COSTS = Path(__file__).with_name("costs.txt")
#: A test that takes longer than this is costly: one commit of `TURNS` runs it.
COSTLY_SECONDS = 0.7
TURNS = 8


@functools.cache
def costly_tests() -> dict[str, float]:
    """Return the costly tests, and the seconds of each."""
    lines = COSTS.read_text(encoding="utf-8").splitlines()
    return {nodeid: float(seconds) for seconds, _, nodeid in (line.partition(" ") for line in lines)}


@functools.cache
def turns() -> dict[str, int]:
    """Return the turn of each costly test and of each file of `TOGETHER`, so that the turns cost the same.

    The longest is the first to get its turn, and each gets the turn with the least so far.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for nodeid in costly_tests():
        file = nodeid.partition("::")[0]
        groups[file if file in TOGETHER else nodeid].append(nodeid)
    sums = {group: sum(map(seconds_of, members)) for group, members in groups.items()}
    turn_of, loads = dict[str, int](), [0.0] * TURNS
    for group in sorted(sums, key=lambda group: (-sums[group], group)):
        turn = loads.index(min(loads))
        loads[turn] += sums[group]
        turn_of |= dict.fromkeys([group, *groups[group]], turn)
    return turn_of


def seconds_of(nodeid: str) -> float:
    """Return what a costly test costs: its processor time, or how long it waits."""
    start = _longest(nodeid, WAITING)
    return max(costly_tests()[nodeid], WAITING[start] if start else 0.0)


def share_of(nodeid: str) -> int:
    """Return of how many tests like this one is run."""
    return SHARES[start] if (start := _longest(nodeid, SHARES)) else 1


def drawn(nodeids: Iterable[str], number: int) -> set[str]:
    """Return the sample of a commit: the costly tests whose turn it is, and of the others the share of their file."""
    families: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    sample: set[str] = set()
    for nodeid in nodeids:
        file = nodeid.partition("::")[0]
        turn = turns().get(file if file in TOGETHER else nodeid)
        if turn is None:
            families[file, _longest(nodeid, SHARES)].append(nodeid)
        elif turn == number % TURNS:
            sample.add(nodeid)
    for (file, start), members in families.items():
        members.sort(key=_lot)  # no two tests of a kind come together because their names are alike
        share = min(share_of(members[0]), len(members))
        sample.update(members[(number + _lot(f"{file} {start}")) % share :: share])
    return sample


def _longest(nodeid: str, starts: Iterable[str]) -> str:
    """Return the longest of the starts that fit, or nothing."""
    return max((start for start in starts if nodeid.startswith(start)), key=len, default="")


def _lot(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def number_of(root: Path) -> int:
    """Return how many commits the branch has.

    A shallow clone does not know: there it is made from the name of the commit, and without Git from the date.
    """
    commit = _git(root, "rev-parse", "HEAD").strip()
    if commit and _git(root, "rev-parse", "--is-shallow-repository").strip() == "false":
        return int(_git(root, "rev-list", "--count", "--first-parent", "HEAD"))
    return _lot(commit or dt.datetime.now(dt.UTC).date().isoformat())


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
    return f"sample: number {number_of(config.rootpath)} (SAMPLE=no runs every test)"


@pytest.hookimpl(tryfirst=True)  # before the option -m is obeyed
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is not drawn."""
    eligible = [item for item in items if item.get_closest_marker("soak") is None]
    sample = drawn([item.nodeid for item in eligible], number_of(config.rootpath))
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    sample.update(cache.get("cache/lastfailed", {}) if cache else ())
    edited = edited_files(config.rootpath)
    for item in eligible:
        if item.nodeid not in sample and item.nodeid.partition("::")[0] not in edited:
            item.add_marker(pytest.mark.soak)


def mark_all(items: Iterable[pytest.Item]) -> None:
    """Mark every test of which `make test` runs a share, for `make soak`."""
    for item in items:
        if share_of(item.nodeid) > 1 or item.nodeid in costly_tests():
            item.add_marker(pytest.mark.soak)


def main() -> None:
    """Write ``costs.txt`` from what `tests.processor_time` found, and print what samples cost."""
    from tests.processor_time import FILE

    seconds_of: dict[str, float] = json.loads(FILE.read_text(encoding="utf-8"))
    costly = {nodeid: seconds for nodeid, seconds in seconds_of.items() if _is_costly(nodeid, seconds)}
    lines = [f"{seconds:.1f} {nodeid}" for nodeid, seconds in sorted(costly.items())]
    COSTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(seconds_of)} tests, {sum(seconds_of.values()):.0f} s")
    print(f"{len(costly)} costly tests, {sum(costly.values()):.0f} s")
    for number in range(TURNS):
        sample = drawn(seconds_of, number)
        print(f"sample {number}: {len(sample)} tests, {sum(seconds_of[nodeid] for nodeid in sample):.0f} s")


def _is_costly(nodeid: str, seconds: float) -> bool:
    return nodeid.startswith("tests/") and (seconds >= COSTLY_SECONDS or bool(_longest(nodeid, WAITING)))


if __name__ == "__main__":
    main()
