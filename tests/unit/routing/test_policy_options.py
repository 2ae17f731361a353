"""The options of link policies: read from text and from mappings, refused with those there are, and used."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tamis
from tamis.curves.runs import merged
from tamis.errors import ModelError
from tamis.index.dominance.batches import Questions
from tamis.index.mics.table import RangeTable
from tamis.model.language.compiler import compile_text
from tamis.node.content import Content
from tamis.routing.core.summary import Origin, Summary
from tamis.routing.policies import OPTIONS, POLICIES, find_policy, options_of
from tamis.runtime.broker.config import BrokerConfig, LinkConfig, read_config
from tamis.runtime.event_json import payload_as_json
from tamis.web.work.comparing import compared

SCHEMA = tamis.Schema({"x": tamis.Number(0, 100), "y": tamis.Number(0, 100)})

#: Policies with options, each option of each family at least once.
VARIANTS = (
    "identity:simplify=false",
    "covering:finder=cells,axes=1,bits=5,groups=2",
    "covering:finder=zcurve,epsilon=0.3,bits=6,curve=hilbert,probes=50",
    "covering:finder=linear,pieces=50",
    "zcurve:epsilon=0.2,truncated=true,curve=gray",
    "projection:k=2,seed=7,draw=gaussian,pick=smallest",
    "subsumption:budget=50,near=10,finder=zcurve",
    "merging:finder=cells,simplify=false",
    "gap:gap=0.9",
    "gap:false_positives=0.1",
    "mics:axes=y+x,bits=5,key_gap=3",
    "mics:axes=1,false_positives=0.05",
    "mics:ranges=4",
    "mics-groups:axes=1,bits=4",
    "two-stage:axes=2,groups=1,finder=zcurve",
)


def test_options_are_read_from_text_and_from_a_mapping() -> None:
    policy = find_policy("zcurve: epsilon = 0.25, truncated=TRUE")
    assert (policy.options["epsilon"], policy.options["truncated"], policy.options["curve"]) == (0.25, True, "z")
    assert policy.name == "zcurve:epsilon=0.25,truncated=true"
    beside = find_policy("zcurve", {"epsilon": 0.25, "truncated": True})
    assert (beside.name, beside.options) == (policy.name, policy.options)
    cells, usual = find_policy("mics:bits=5,axes=y").cells, find_policy("mics").cells
    assert usual is not None
    assert usual.bits == 8, "256 cells, as in [mics] section 7"
    assert cells == replace(usual, bits=5, names=("y",), n_axes=1)


def test_a_default_that_is_written_changes_nothing() -> None:
    assert find_policy("zcurve:epsilon=0.05").name == "zcurve"
    assert find_policy("covering") is POLICIES["covering"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "zcurve:epsilom=0.1",
            r"no option 'epsilom' \(did you mean 'epsilon'\?\); its options: simplify, pieces, epsilon",
        ),
        ("covering:epsilon=0.1", "it needs finder=zcurve; its options: simplify, pieces, finder"),
        ("covering:finder=cells,epsilon=0.1", "no option 'epsilon'"),
        ("flood:k=3", "policy 'flood' has no option 'k'; it has none"),
        ("zcurve:epsilon=1", "epsilon is a number from 0 to 0.999, not '1'"),
        ("zcurve:epsilon=many", "epsilon is a number from 0 to 0.999, not 'many'"),
        ("zcurve:curve=peano", "curve is one of z, hilbert, gray, not 'peano'"),
        ("zcurve:truncated=maybe", "truncated is true or false, not 'maybe'"),
        ("zcurve:truncated=true,epsilon=0", "policy 'zcurve': a truncated search leaves something out"),
        ("zcurve:epsilon", "write its options as option=value, each once, not 'epsilon'"),
        ("zcurve:bits=3,bits=4", "each once"),
        ("projection:k=1.5", "k is a whole number from 0 to 4,096, not '1.5'"),
        ("mics:axes=9", "a curve has up to 8 axes"),
        ("mics:axes=a+", r"axes is a number, or names joined with \+, not 'a\+'"),
        ("mics:axes=8,bits=8", "62 in all, not 8 axes of 8 bits"),
        ("covering:finder=cells,axes=a", "axes of a finder is a number"),
        ("zcurv:epsilon=0.1", "unknown policy 'zcurv'"),
    ],
)
def test_a_wrong_option_is_refused_with_those_there_are(text: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        find_policy(text)


@pytest.mark.parametrize("value", [True, 1.5, None, [1], "x"])
def test_values_of_another_type_are_refused(value: object) -> None:
    with pytest.raises(ModelError, match="k is a whole number"):
        find_policy("projection", {"k": value})


def test_every_option_is_one_of_a_policy_and_has_an_allowed_default() -> None:
    used = {name for policy in POLICIES for name in options_of(policy)}
    assert used == set(OPTIONS)
    assert all(option.read(option.default) == option.default for option in OPTIONS.values())
    tried = {part.partition("=")[0] for text in VARIANTS for part in text.partition(":")[2].split(",")}
    assert tried == set(OPTIONS)


def test_the_page_lists_every_option() -> None:
    page = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    for option in OPTIONS.values():
        policies = ", ".join(name for name in POLICIES if option.name in options_of(name))
        assert f"| `{option.name}` | {option.written_default} | {option.allowed} | {option.help} | {policies} |" in page


@pytest.mark.parametrize("text", VARIANTS)
def test_policies_with_options_deliver_the_same(text: str) -> None:
    rng = random.Random(text)
    network = tamis.Network(5, find_policy(text), schema=SCHEMA, seed=3)
    clients = [network.attach(f"c{number}") for number in range(5)]
    options = {}
    for number in range(40):
        x, y, width = rng.randrange(100), rng.randrange(100), rng.choice((1, 5, 40))
        either = f"x BETWEEN {x} AND {x + width} AND y BETWEEN {y} AND {y + width}"
        also = rng.choice(("", " OR x > 98", f" OR x = {x}"))
        client = rng.choice(clients)
        options[network.subscribe(client, either + also, id=f"s{number}")] = client
    network.run()
    for number in rng.sample(range(40), 12):
        network.unsubscribe(options[f"s{number}"], f"s{number}")
    network.run()
    for _ in range(60):
        network.publish(rng.choice(clients), {"x": rng.randrange(105), "y": rng.randrange(105)})
    network.run()
    statistics = network.statistics()
    assert (statistics.lost, statistics.duplicates) == (0, 0)
    assert statistics.delivered > 30
    assert statistics.policy == find_policy(text).name


def summary_of(policy: str, texts: list[str]) -> Summary:
    summary = Summary(find_policy(policy).make())
    for number, text in enumerate(texts):
        summary.add(Origin("alice", str(number)), compile_text(text, id=str(number)))
    summary.check_invariants(exact=find_policy(policy).exact)
    return summary


def test_what_is_announced_is_simplified() -> None:
    texts = ["x < 1 AND y < 1 OR x < 2 AND y < 3"]
    [content] = summary_of("covering", texts).contents()
    assert content.filters == compile_text("x < 2 AND y < 3").filters
    [as_written] = summary_of("covering:simplify=false", texts).contents()
    assert len(as_written.filters) == 2
    assert len(summary_of("identity", [*texts, "x < 2 AND y < 3"])) == 1
    assert len(summary_of("identity:simplify=false", [*texts, "x < 2 AND y < 3"])) == 2


def test_a_batch_is_simplified_and_placed_at_once() -> None:
    redundant = "x < 1 AND y < 1 OR x < 2 AND y < 3"
    texts = [redundant, "x < 1 AND y > 50 OR x > 50 AND y < 2", *(f"x > {n} AND y > {n}" for n in range(10, 40))]
    arrivals = [(Origin("alice", str(n)), compile_text(text, id=str(n))) for n, text in enumerate(texts)]
    policy = find_policy("covering")
    strategy, summary = policy.make(), Summary(policy.make())
    keys, questions = [origin.key for origin, _ in arrivals], Questions([question for _, question in arrivals])
    assert strategy.place(keys, questions) is not None
    summary.add_many(arrivals, questions)
    summary.check_invariants(exact=policy.exact)
    announced = {str(content.id): content.filters for content in summary.contents()}
    assert announced["0"] == compile_text("x < 2 AND y < 3").filters
    assert announced["1"] == arrivals[1][1].filters  # nothing says it with less
    assert announced.keys() == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("policy", "filled"),
    [
        ("merging", "x IN (0, 5, 500, 509, 999)"),
        ("gap:false_positives=0.006", "x BETWEEN 0 AND 5 OR x IN (500, 509, 999)"),
        ("gap:false_positives=0.02", "x BETWEEN 0 AND 5 OR x BETWEEN 500 AND 509 OR x = 999"),
        ("gap:gap=0.001", "x IN (0, 5, 500, 509, 999)"),
        ("gap:gap=1", "x BETWEEN 0 AND 999"),
    ],
)
def test_gaps_are_filled_up_to_a_share(policy: str, filled: str) -> None:
    """Values lie from 0 to 999 once the first two came; the gaps are 5, 9, 490 and 495 long. Small ones go first."""
    [content] = summary_of(policy, ["x = 0", "x = 999", "x = 500", "x = 509", "x = 5"]).contents()
    assert content.filters == compile_text(filled).filters


def test_a_small_budget_finds_fewer_unions() -> None:
    texts = [f"x >= {n} AND x < {n + 1}" for n in range(20)] + ["x >= 2 AND x < 18"]
    assert len(summary_of("subsumption", texts)) == 20
    assert len(summary_of("subsumption:near=3", texts)) < 20, "the wide one is announced and covers the others"


def naive_gap(runs: list[list[int]], n_keys: int, share: float, most: int) -> int:
    """Return the gap by trying all of them."""
    gaps = [after[0] - before[1] - 1 for before, after in itertools.pairwise(runs)]
    if most:
        return next(gap for gap in range(n_keys) if 1 + sum(width > gap for width in gaps) <= most)
    fits = [gap for gap in {0, *gaps} if sum(width for width in gaps if width <= gap) <= share * n_keys]
    return max(fits)


@pytest.mark.parametrize("seed", range(30))
def test_the_gap_follows_the_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table, n_keys = RangeTable(4_096), 4_096
    starts = np.sort(rng.choice(n_keys - 8, int(rng.integers(1, 60)), replace=False))
    runs = merged([[int(start), int(start) + int(rng.integers(0, 8))] for start in starts])
    table.add(runs)
    share, most = [(0.0, 0), (0.02, 0), (0.3, 0), (1.0, 0), (0.0, 1), (0.0, 7)][seed % 6]
    gained, lost = table.fit_gap(share, most)
    assert table.gap == naive_gap(runs.tolist(), n_keys, share, most)
    assert not len(lost)
    added = sum(last - first + 1 for first, last in gained.tolist())
    assert added <= share * n_keys or most
    assert not most or len(table.ranges()) <= most
    back = table.fit_gap(0.0, 0)
    assert (back[0].tolist(), back[1].tolist()) == ([], gained.tolist())
    assert table.ranges().tolist() == runs.tolist()


def test_a_link_takes_options_and_cells_from_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "broker.toml"
    cells = find_policy("mics:axes=1").fitted_to([compile_text("x < 5")]).cells
    assert cells is not None
    (tmp_path / "cells.json").write_text(f"[{cells.spaces[0]}]")
    path.write_text(
        'schema = "s.json"\n[[links]]\nname = "a"\npolicy = "zcurve"\noptions = { epsilon = 0.2, bits = 8 }\n'
        '[[links]]\nname = "b"\npolicy = "mics"\noptions = { false_positives = 0.01 }\ncells = "cells.json"\n'
    )
    first, second = read_config(path).check().links
    assert first.read_policy().name == "zcurve:epsilon=0.2,bits=8"
    read_cells = second.read_policy().cells
    assert read_cells is not None
    assert (read_cells.spaces, read_cells.false_positives) == (cells.spaces, 0.01)


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (LinkConfig("north", policy="zcurve", options={"eps": 1}), "link 'north': policy 'zcurve' has no option 'eps'"),
        (LinkConfig("north", policy="zcurve", options={"epsilon": 2.0}), "link 'north': policy 'zcurve': epsilon is"),
        (LinkConfig("north", policy="nothing"), "link 'north': unknown policy 'nothing'"),
        (LinkConfig("north", cells="cells.json"), "link 'north': cells need a policy"),
        (LinkConfig("north", policy="mics", cells="/nowhere/cells.json"), "tamis tune --cells"),
        (LinkConfig("north", policy="mics", cells=__file__), "tamis tune --cells"),
    ],
)
def test_a_broker_does_not_start_with_wrong_options(link: LinkConfig, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        BrokerConfig(schema="s.json", links=(link,)).check()


def test_a_comparison_takes_policies_with_options() -> None:
    content = Content(SCHEMA)
    payloads = [content.write_event({"x": x, "y": x}) for x in range(20)]
    rules = [(n, {"op": "<", "args": [{"property": "x"}, n]}, "default") for n in range(6)]
    arguments = {"brokers": 3, "policies": ["zcurve:epsilon=0.4", "mics:axes=x", "drtree"], "subscriptions": rules}
    comparison = compared(arguments, content, payloads)
    assert [row["policy"] for row in comparison] == ["zcurve:epsilon=0.4", "mics:axes=x", "drtree"]
    assert {row["lost"] for row in comparison} == {0}
    with pytest.raises(ModelError, match="policies: policy 'zcurve' has no option 'eps'"):
        compared(arguments | {"policies": ["zcurve:eps=1"]}, content, payloads)


def test_a_comparison_takes_events_whose_values_have_another_type() -> None:
    content = Content()
    first = [{"tags": ["a", "b"], "x": 1}, {"tags": {"a": 1}, "x": 2}, {"tags": 7, "x": [3]}, {"o": {"x": {"y": 1}}}]
    payloads = [content.write_event(event) for event in first]
    rules = [(0, {"op": ">", "args": [{"property": "x"}, 1]}, "default")]
    comparison = compared({"brokers": 3, "policies": ["covering"], "subscriptions": rules}, content, payloads)
    assert [(row["policy"], row["lost"]) for row in comparison] == [("covering", 0)]


def test_events_before_a_path_had_its_type_are_shown_as_they_were() -> None:
    content = Content()
    payload = content.write_event({"host": {"tags": {"a": 1}, "name": [True]}})
    content.compile("A_CONTAINS(host.tags, ('x'))")
    assert payload_as_json(payload, content.schema) == {"host": {"tags": {"a": 1}, "name": [True]}}
