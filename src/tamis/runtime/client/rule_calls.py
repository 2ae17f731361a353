"""Sets of subscriptions at a broker over HTTP: list them, and bring them to a plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from tamis.errors import ConnectionLostError, RefusedError
from tamis.files.rule_sets import DELIVERY_OPTIONS, SET, FileRule, Plan, changed_options
from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["RuleCalls"]

#: Subscriptions of one page, and of one request.
PAGE, AT_ONCE = 1_000, 500

#: How a broker says which subscription of a request it refuses.
_ROW = re.compile(r"subscription (\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class RuleCalls:
    """The subscriptions of one set, as a broker has them."""

    calls: HttpCalls
    set_name: str

    def read(self) -> list[FileRule]:
        """Return the subscriptions of the set."""
        return [rule for rule in self._listed(self.set_name) if rule.metadata.get(SET) == self.set_name]

    def find_foreign(self, rules: Sequence[FileRule]) -> list[FileRule]:
        """Return subscriptions that have the ids of rules and belong to another set, or to none."""
        existing = (self._find(rule) for rule in rules)
        return [rule for rule in existing if rule is not None and rule.metadata.get(SET) != self.set_name]

    def count_fired(self, rule: FileRule) -> tuple[int, int]:
        """Return how many of the last events of the broker a rule matches, and how many there are."""
        trial = {"filter": _source(rule), "namespace": rule.namespace, "covering": False, "learn": True}
        answer = msgspec.json.decode(self._call_about(rule, "POST", "/v1/trial", trial))
        return answer["matched"], answer["examined"]

    def apply(self, plan: Plan) -> None:
        """Bring the broker to a plan: add and change first, so that a rule that was renamed misses nothing."""
        for start in range(0, len(plan.added), AT_ONCE):
            self._add(plan.added[start : start + AT_ONCE])
        for former, rule in plan.changed:
            document = _document(rule)
            changed = {name: document[name] for name in ("filter", "metadata")} | {"expires": document.get("expires")}
            options = {name: getattr(rule, name) for name in changed_options(former, rule) if name in DELIVERY_OPTIONS}
            self._call_about(rule, "PUT", _path(rule), changed | options)
        for rule in plan.removed:
            self._call_about(rule, "DELETE", _path(rule))

    def _add(self, rules: Sequence[FileRule]) -> None:
        """Add rules, all or none; an error names the rule that the broker refuses, and its place."""
        try:
            self._post(msgspec.json.encode([_document(rule) for rule in rules]), rules[0])
        except RefusedError as error:
            row = _ROW.match(error.reason)
            if row is None or int(row[1]) >= len(rules):
                raise
            raise _about(rules[int(row[1])], error.code, row[2]) from None

    def _post(self, body: bytes, first: FileRule) -> None:
        """Post rules; if the broker may have them although it did not answer, look for the first of them."""
        for is_last in (False, True):
            try:
                self.calls.call("POST", "/v1/subscriptions", body=body, may_repeat=False)
            except ConnectionLostError:
                if is_last or not self.calls.addresses.has_others:
                    raise
                rule = self._find(first)
                if rule is not None and rule.metadata.get(SET) == self.set_name:
                    return
            else:
                return

    def _call_about(self, rule: FileRule, method: str, path: str, body: Any = None) -> bytes:
        """Return the answer to a request about one rule; an error names the rule and its place."""
        query = {"namespace": rule.namespace} if path != "/v1/trial" else None
        try:
            return self.calls.call(method, path, query, None if body is None else msgspec.json.encode(body))
        except RefusedError as error:
            if method == "DELETE" and error.code == 404:  # it ended meanwhile
                return b""
            raise _about(rule, error.code, error.reason) from None

    def _listed(self, search: str) -> Iterator[FileRule]:
        after: int | None = 0
        while after is not None:
            query = {"search": search, "limit": str(PAGE), "after": str(after)}
            page = msgspec.json.decode(self.calls.call("GET", "/v1/subscriptions", query))
            yield from (_rule(shown) for shown in page["subscriptions"] if shown["client"] is None)
            after = page["next"]

    def _find(self, rule: FileRule) -> FileRule | None:
        try:
            return _rule(msgspec.json.decode(self.calls.call("GET", _path(rule), {"namespace": rule.namespace})))
        except RefusedError as error:
            if error.code == 404:
                return None
            raise


def _about(rule: FileRule, code: int, reason: str) -> RefusedError:
    position = f"{rule.place}: " if rule.place else ""
    return RefusedError(code, f"{position}rule {rule.id!r}: {reason}")


def _path(rule: FileRule) -> str:
    return f"/v1/subscriptions/{quote(str(rule.id), safe='')}"


def _rule(shown: dict[str, Any]) -> FileRule:
    fields = tuple(shown.get("fields") or ())  # a broker of an earlier release has none
    max_deliveries = shown.get("max_deliveries", 0)
    return FileRule(
        shown["id"],
        shown["namespace"],
        shown["filter"],
        shown["expires"],
        shown["metadata"],
        durable=shown["durable"],
        fields=fields,
        max_deliveries=max_deliveries,
    )


def _document(rule: FileRule) -> dict[str, Any]:
    """Return a rule as it is posted."""
    metadata = dict(rule.metadata)
    document = {"id": rule.id, "namespace": rule.namespace, "filter": _source(rule), "metadata": metadata}
    document |= {} if rule.expires is None else {"expires": _moment(rule.expires)}
    plain = FileRule(rule.id, rule.namespace, rule.filter)
    return document | {name: getattr(rule, name) for name in changed_options(plain, rule) if name in DELIVERY_OPTIONS}


def _source(rule: FileRule) -> Any:
    """Return a filter as CQL2 text, or as the JSON that it is."""
    return msgspec.json.decode(rule.filter) if rule.filter.lstrip().startswith("{") else rule.filter


def _moment(expires: int) -> str:
    """Return microseconds UTC as RFC 3339."""
    import datetime as dt

    return (dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=expires)).isoformat()
