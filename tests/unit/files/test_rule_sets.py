"""Rules in files: what they are called, what is refused, and how they differ from what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tamis.errors import TableError
from tamis.files.rule_sets import SET, FileRule, compare_rules, read_rules


def test_a_folder_is_read_in_the_order_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "strong.cql2").write_text("mag >= 5\n")
    (tmp_path / "many.txt").write_text("# two of them\nmag < 1\n\nmag < 2\n")
    (tmp_path / "rows.jsonl").write_text('{"id": 7, "filter": {"op": "=", "args": [{"property": "x"}, 1]}}\n')
    (tmp_path / "README.md").write_text("not a rule")
    (tmp_path / ".hidden.txt").write_text("mag > 1")
    rules = read_rules(tmp_path, "north")
    assert [rule.id for rule in rules] == ["strong", "many:2", "many:4", 7]
    assert {rule.metadata[SET] for rule in rules} == {"north"}
    assert rules[3].filter == '{"op":"=","args":[{"property":"x"},1]}'


def test_moments_and_metadata_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    row = '{"id": "a", "filter": "x = 1", "namespace": "n", "expires": "1970-01-01T00:00:01Z", "metadata": {"t": "T"}}'
    file.write_text(row)
    assert read_rules(file, "s") == [FileRule("a", "n", "x = 1", 1_000_000, {"t": "T", SET: "s"})]


def test_options_of_deliveries_are_read_from_documents_and_tables(tmp_path: Path) -> None:
    expected = FileRule("a", "default", "x = 1", None, {SET: "s"}, "", False, ("x", "y"), 5)
    row = '{"id": "a", "filter": "x = 1", "durable": false, "fields": ["x", "y"], "max_deliveries": 5}'
    (tmp_path / "a.ndjson").write_text(row)
    (tmp_path / "a.csv").write_text('id,filter,durable,fields,max_deliveries\na,x = 1,false,"x, y",5\nb,x = 2,,,\n')
    assert read_rules(tmp_path / "a.ndjson", "s") == [expected]
    assert read_rules(tmp_path / "a.csv", "s") == [expected, FileRule("b", "default", "x = 2", None, {SET: "s"})]


def test_a_file_whose_name_is_a_slip_is_refused(tmp_path: Path) -> None:
    """Its rules would be removed: they are in no file that is read."""
    (tmp_path / "strong.cql2").write_text("mag >= 5\n")
    (tmp_path / "weak.clq2").write_text("mag < 5\n")
    with pytest.raises(TableError, match=r"weak\.clq2: not a file of rules by its name \(known: \.txt, \.cql2, "):
        read_rules(tmp_path, "s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"id": "a", "filter": "x = 1"}\n{"id": "a", "filter": "x = 2"}', "the id 'a' is also in"),
        ('{"id": "a", "filter": "x = 1", "expires": "tomorrow"}', "line 1: expires"),
        ('{"id": "a"}', "there is no 'filter'"),
        ("", "there is no rule in it"),
        (
            '{"id": "a", "filter": "x = 1"}\n{"id": "b", "filter": "x = 1", "max_delivery": 3}',
            "line 2: unknown key 'max_d",
        ),
        (
            '{"id": "a", "filter": "x = 1", "title": "A"}',
            r"known: id, .*max_deliveries\); notes .* belong into metadata",
        ),
        (
            '{"id": "a", "filter": "x = 1", "max_deliveries": "often"}',
            "line 1: max_deliveries: expected a whole number",
        ),
        ('{"id": "a", "filter": "x = 1", "max_deliveries": true}', "line 1: max_deliveries: expected a whole number"),
        ('{"id": "a", "filter": "x = 1", "durable": 1}', "line 1: durable: expected true or false"),
        ('{"id": "a", "filter": "x = 1", "fields": {"x": 1}}', "line 1: fields: expected a list of names"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "rules.jsonl").write_text(text)
    with pytest.raises(TableError, match=words):
        read_rules(tmp_path, "s")
    with pytest.raises(TableError, match="no such file or folder"):
        read_rules(tmp_path / "nowhere", "s")


def test_a_rule_changes_with_its_filter_and_each_of_its_options() -> None:
    before = FileRule("a", "n", "x = 1", 5, {"t": "T"}, "here")
    assert compare_rules([FileRule("a", "n", "x = 1", 5, {"t": "T"}, "there")], [before]).is_empty
    for other in (
        FileRule("a", "n", "x = 2", 5, {"t": "T"}),
        FileRule("a", "n", "x = 1", 6, {"t": "T"}),
        FileRule("a", "n", "x = 1", 5),
        FileRule("a", "n", "x = 1", 5, {"t": "T"}, durable=False),
        FileRule("a", "n", "x = 1", 5, {"t": "T"}, fields=("x",)),
        FileRule("a", "n", "x = 1", 5, {"t": "T"}, max_deliveries=3),
    ):
        assert compare_rules([other], [before]).changed == [(before, other)]
    plan = compare_rules([FileRule("a", "m", "x = 1")], [before])  # another namespace is another rule
    assert (len(plan.added), len(plan.removed)) == (1, 1)
