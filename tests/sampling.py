"""A plugin of pytest for `make test`: of the expensive tests, a sample that moves on with each commit.

`SHARES` and `TURNS` name them. The number of the commit on its branch chooses: where one of eight tests is run, eight
commits in a row run all of them, and each commit runs at least one. What is not drawn is marked ``soak``, so that
``-m "not soak"`` leaves it out. What failed in the run before, and all tests of a file that was edited since the
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

__all__ = ["SHARES", "TURNS", "drawn", "edited_files", "mark_all", "number_of", "share_of"]

#: The start of a test's id, and of how many such tests in a file one is run. The longest start that fits counts.
SHARES: dict[str, int] = {
    "tests/spark/": 8,
    "tests/spark/test_house_rules.py": 1,
    "tests/spark/test_cluster.py::test_the_tables_are_worth_the_comparison": 1,
    "tests/spark/test_cluster_connect.py::test_spark_brings_its_own_java": 1,
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
#: Tests of several files that take long and share nothing, each by the start of its id: one of each row is run.
TURNS: tuple[tuple[str, ...], ...] = (
    (
        "tests/spark/test_cloud.py::test_a_pipeline_with_two_uris",
        "tests/spark/test_bench.py::test_all_systems_find_the_same_pairs",
        "tests/spark/test_sync.py::test_small_parts_are_merged_and_what_stood_beside_is_made_anew",
        "tests/spark/test_cloud.py::test_a_table_synced_to_a_store",
        "tests/spark/test_bench.py::test_every_join_of_the_papers_has_a_row",
        "tests/test_notebooks.py::test_a_notebook_prints_what_it_shows[2-storms-and-counties-on-spark]",
        "tests/spark/test_pipeline.py::test_the_demonstration",
        "tests/spark/test_cases.py::test_answers[arithmetic]",
    ),
    (
        "tests/simulation/test_seeds.py::test_the_oracle_sees_deliveries_and_faults",
        "tests/simulation/test_seeds.py::test_disks_that_are_restored_from_backups",
        "tests/simulation/test_seeds.py::test_a_larger_world",
    ),
    (
        "tests/server/test_chaos.py::test_brokers_that_are_killed_lose_nothing",
        "tests/server/test_postgres_store.py::test_no_kill_of_the_server_loses_or_repeats_a_commit",
        "tests/server/test_store.py::test_no_power_cut_loses_what_was_acknowledged",
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
        "tests/property/test_sql_agreement.py::test_a_million_pairs",
        "tests/property/test_region_agreement.py::test_a_hundred_thousand_pairs",
        "tests/property/test_exact_relations.py::test_regions_that_nearly_touch",
    ),
    (
        "tests/e2e/test_written_commands.py::test_every_command_of_the_page_runs[README.md]",
        "tests/e2e/test_cli_bench.py::test_a_run_has_all_rows",
        "tests/e2e/test_cli_docs.py::test_the_page_shows_what_happens",
        "tests/e2e/test_demo_console.py::test_it_ends_at_sigterm",
        "tests/e2e/test_written_commands.py::test_what_serves_is_started_and_curl_is_answered",
    ),
    (
        "tests/server/test_shell.py::test_publish_and_subscribe_in_the_shell",
        "tests/server/test_covering_question.py::test_others_are_served_while_a_wide_question_is_answered",
        "tests/server/test_shell.py::test_a_broker_does_not_start_on_a_taken_port_or_in_the_open",
        "tests/server/test_snapshot_broker.py::test_a_broker_has_the_subscriptions_of_the_newest_version",
    ),
    (
        "tests/attacks/test_expensive_requests.py::test_no_request_holds_the_loop",
        "tests/attacks/test_large_backlog.py::test_a_backlog_larger_than_memory_is_opened_and_sent",
        "tests/attacks/test_crafted_snapshots.py::test_a_short_run_of_the_fuzzer_finds_nothing",
        "tests/attacks/test_token_file_races.py::test_a_revocation_beside_an_addition_is_not_lost",
        "tests/attacks/test_hostile_tenant.py::test_others_are_served_while_one_tenant_attacks",
    ),
    (
        "tests/attacks/test_expensive_requests.py::test_a_budget_of_cpu_time_is_enforced",
        "tests/attacks/test_crafted_snapshots.py::test_the_fuzzer_sees_a_process_that_dies",
        "tests/attacks/test_expensive_requests.py::test_a_deadline_is_enforced_and_a_killed_worker_is_replaced",
        "tests/attacks/test_multiplied_filters.py::test_a_broker_with_such_subscriptions_starts_again",
        "tests/attacks/test_reading_rights.py::test_a_policy_is_joined_to_a_trial",
    ),
    (  # they wait for the time limits of a broker, five to twenty seconds each
        "tests/attacks/test_many_connections.py::test_a_head_that_comes_byte_by_byte_is_cut",
        "tests/attacks/test_peer_slow_connections.py::test_silent_strangers_do_not_keep_peers_out_and_are_cut",
        "tests/attacks/test_json_web_tokens.py::test_a_stream_ends_with_its_token[expiry]",
        "tests/attacks/test_many_connections.py::test_silent_sockets_of_one_address_keep_no_other_out",
        "tests/attacks/test_revocation.py::test_sockets_and_links_are_cut[file broken before",
        "tests/attacks/test_peer_dials_members_only.py::test_what_is_no_peer_gets_a_greeting_and_nothing_else",
        "tests/attacks/test_tiny_websocket_frames.py::test_many_small_messages_of_a_client_are_taken",
    ),
    (
        "tests/browser/test_client_names.py",
        "tests/browser/test_demo_map.py",
        "tests/browser/test_many_subscriptions.py",
    ),
    (
        "tests/unit/engine/test_ids.py::TestIds",
        "tests/unit/index_packed/test_life.py::TestBoxIndexLife",
        "tests/unit/engine/test_engine.py::test_one_writer_and_many_readers",
        "tests/unit/counting/test_counting_matcher.py::test_agrees_with_the_truth_through_random_lives",
    ),
    (
        "tests/unit/language/test_json.py::test_json_round_trips",
        "tests/unit/language/test_json.py::test_text_and_json_say_the_same",
        "tests/unit/language/test_parse.py::test_space_and_needless_parentheses_change_nothing",
    ),
    (
        "tests/unit/kernels/test_symbols.py::test_kernels_of_two_processes_mean_the_same",
        "tests/unit/language/test_sigma.py::test_a_large_rule_stays_one_filter_and_is_found_by_its_literals",
        "tests/unit/algebra/test_regions.py::test_a_fence_of_many_regions_is_quick",
        "tests/unit/demo/test_warm_up.py::test_a_small_job_leaves_a_mark_and_is_not_run_twice",
        "tests/unit/demo/test_datasets.py::test_every_question_but_the_impossible_finds_a_storm",
        "tests/unit/geometry/test_rcc8.py::test_the_table_is_that_of_small_regions",
        "tests/unit/algebra/test_regions.py::test_a_fence_with_other_conditions_is_quick",
        "tests/unit/counting/test_cr_tree.py::test_table_2_holds_and_is_tight",
    ),
    (
        "tests/unit/algebra/test_balls.py::test_every_small_pair[1-4-radii0]",
        "tests/unit/reduction/test_reduce.py::test_two_thousand_mixed_subscriptions",
        "tests/unit/runtime/test_network.py::test_five_hundred_brokers_and_a_third_of_them_killed",
        "tests/unit/language/test_fuzz.py::test_a_slow_input_is_found",
        "tests/unit/routing/test_slices.py::test_no_step_costs_more_because_more_subscriptions_are_hidden",
        "tests/unit/engine/test_snapshot.py::TestPacked::test_two_processes_share_one_file",
        "tests/unit/algebra/test_patterns.py::test_a_union_of_many_patterns_ends",
        "tests/unit/routing/test_cell_records.py::test_a_change_costs_the_same_among_few_and_among_many",
    ),
)


def share_of(nodeid: str) -> int:
    """Return of how many tests like this one is run."""
    return SHARES[start] if (start := _longest(nodeid, SHARES)) else 1


def drawn(nodeids: Iterable[str], number: int) -> set[str]:
    """Return the sample of a commit: of each row of `TURNS` one, and of the other tests the share of their file."""
    families: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    sample: set[str] = set()
    for nodeid in nodeids:
        if row := next((row for row in TURNS if nodeid.startswith(row)), ()):
            if nodeid.startswith(row[(number + _lot(row[0])) % len(row)]):  # rows of one length begin differently
                sample.add(nodeid)
        else:
            families[nodeid.partition("::")[0], _longest(nodeid, SHARES)].append(nodeid)
    for (file, start), members in families.items():
        members.sort(key=_lot)  # no two tests of a kind come together because their names are alike
        turns = min(share_of(members[0]), len(members))
        sample.update(members[(number + _lot(f"{file} {start}")) % turns :: turns])
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
        if share_of(item.nodeid) > 1 or any(item.nodeid.startswith(row) for row in TURNS):
            item.add_marker(pytest.mark.soak)
