"""``/openapi.json``: what the endpoints take and give, for tools."""

from __future__ import annotations

from typing import Any

from tamis import __version__

__all__ = ["document"]

Json = dict[str, Any]

_ID: Json = {"oneOf": [{"type": "string", "minLength": 1, "maxLength": 128}, {"type": "integer"}]}
_EVENT: Json = {"type": "object", "maxProperties": 256, "additionalProperties": True}

_FILTER: Json = {"oneOf": [{"type": "string"}, {"type": "object"}], "description": "CQL2 text or CQL2-JSON"}
_EXPIRES: Json = {
    "oneOf": [{"type": "string", "format": "date-time"}, {"type": "number", "exclusiveMinimum": 0}],
    "description": "A moment, or seconds from now.",
}

_FIELDS: Json = {
    "type": "array",
    "items": {"type": "string", "minLength": 1},
    "uniqueItems": True,
    "maxItems": 256,
    "description": "the attributes that deliveries carry; all if it is empty or left out",
}

_METADATA: Json = {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 1000}

_CURSOR: Json = {"type": "string", "pattern": "^[0-9]{1,19}-[0-9]{1,18}$"}

_SECRET: Json = {"type": "string", "pattern": "^whsec_[A-Za-z0-9+/=]{32,88}$", "description": "made if left out"}

_CURSORS: Json = {"type": "array", "items": _CURSOR, "maxItems": 1000}
_CONSUMER: Json = {"type": "string", "minLength": 1, "maxLength": 128}


def _recent(name: str) -> Json:
    """Return the schema of a page of what came by."""
    return {
        "type": "object",
        "required": [name, "next"],
        "properties": {
            name: {"type": "array", "items": {"type": "object", "required": ["id", "namespace", "at", "event"]}},
            "next": {"type": ["integer", "null"], "description": "`before` of the next page"},
        },
    }


_SCHEMAS: Json = {
    "Event": _EVENT | {"description": "Attribute names and values; a missing value is left out."},
    "CloudEvent": {
        "type": "object",
        "required": ["specversion", "id", "source", "type", "data"],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "minLength": 1},
            "type": {"type": "string", "minLength": 1},
            "data": {"$ref": "#/components/schemas/Event"},
        },
    },
    "Accepted": {
        "type": "object",
        "required": ["accepted", "ids"],
        "properties": {
            "accepted": {"type": "integer"},
            "ids": {"type": "array", "items": {"type": "string"}},
            "duplicate": {"type": "boolean", "description": "with `producer`: this batch was taken before"},
        },
    },
    "NewSubscription": {
        "type": "object",
        "required": ["filter"],
        "additionalProperties": False,
        "properties": {
            "id": _ID,
            "filter": _FILTER,
            "namespace": {"type": "string", "minLength": 1, "maxLength": 128, "default": "default"},
            "durable": {"type": "boolean", "default": True},
            "expires": _EXPIRES,
            "metadata": _METADATA,
            "fields": _FIELDS,
            "max_deliveries": {"type": "integer", "minimum": 0, "maximum": 1000},
        },
    },
    "ChangedSubscription": {
        "type": "object",
        "required": ["filter"],
        "additionalProperties": False,
        "description": "What is left out stays as it is.",
        "properties": {
            "filter": _FILTER,
            "durable": {"type": "boolean"},
            "expires": {"oneOf": [*_EXPIRES["oneOf"], {"type": "null"}]},
            "metadata": _METADATA,
            "fields": _FIELDS,
            "max_deliveries": {"type": "integer", "minimum": 0, "maximum": 1000},
        },
    },
    "NewWebhook": {
        "type": "object",
        "required": ["url"],
        "additionalProperties": False,
        "properties": {
            "url": {"type": "string", "format": "uri", "maxLength": 2048},
            "secret": _SECRET,
            "format": {"enum": ["structured", "binary"]},
            "batch": {"type": "integer", "minimum": 1, "maximum": 1000},
            "parallel": {"type": "integer", "minimum": 1, "maximum": 16, "description": "1: in order"},
            "timeout": {"type": "number", "minimum": 1, "maximum": 60},
            "max_failures": {"type": "integer", "minimum": 1, "maximum": 1000},
        },
    },
    "NewSecret": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"secret": _SECRET, "overlap": {"type": "number", "minimum": 0, "maximum": 2592000}},
    },
    "Subscription": {
        "type": "object",
        "required": ["id", "namespace", "filter", "state", "durable"],
        "properties": {
            "id": _ID,
            "namespace": {"type": "string"},
            "filter": {"type": "string"},
            "state": {"enum": ["pending", "accepted", "active", "cancelled"]},
            "durable": {"type": "boolean"},
            "owner": {"type": "string"},
            "client": {"type": ["string", "null"]},
            "expires": {"type": ["integer", "null"], "description": "microseconds UTC"},
            "created": {"type": "integer", "description": "microseconds UTC"},
            "metadata": {"type": "object"},
            "fields": {"type": ["array", "null"], "items": {"type": "string"}},
            "max_deliveries": {"type": "integer"},
            "waiting": {"type": "integer"},
            "suspended": {"type": "boolean"},
            "waiting_for": {"type": "array", "items": {"type": "string"}},
        },
    },
    "Page": {
        "type": "object",
        "required": ["subscriptions", "next"],
        "properties": {
            "subscriptions": {"type": "array", "items": {"$ref": "#/components/schemas/Subscription"}},
            "next": {"type": ["integer", "null"], "description": "`after` of the next page"},
        },
    },
    "Subscribed": {
        "oneOf": [{"$ref": "#/components/schemas/Subscription"}, {"$ref": "#/components/schemas/Page"}],
        "description": "a page when many were sent",
    },
    "Log": {
        "type": "object",
        "required": ["first", "acknowledged", "last", "next", "messages"],
        "properties": {
            "first": {"type": "string", "description": "everything behind this cursor can be read"},
            "acknowledged": {"type": "string"},
            "last": {"type": "string", "description": "the cursor of the newest message"},
            "next": {"type": "string", "description": "`after` of the next page"},
            "messages": {"type": "array", "items": {"type": "object", "required": ["cursor"]}},
        },
    },
    "RecentEvents": _recent("events"),
    "RecentDeliveries": _recent("deliveries"),
    "Audit": {
        "type": "object",
        "required": ["deeds", "next"],
        "properties": {
            "deeds": {"type": "array", "items": {"type": "object", "required": ["number", "at", "who", "what"]}},
            "next": {"type": ["integer", "null"], "description": "`before` of the next page"},
        },
    },
    "Cursor": {
        "type": "object",
        "required": ["cursor"],
        "additionalProperties": False,
        "properties": {"cursor": _CURSOR},
    },
    "Take": {
        "type": "object",
        "required": ["consumer"],
        "additionalProperties": False,
        "properties": {
            "consumer": _CONSUMER,
            "limit": {"type": "integer", "minimum": 1, "maximum": 256, "default": 1},
            "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600, "default": 30},
            "wait": {"type": "number", "minimum": 0, "maximum": 20, "default": 0},
            "request_id": {"type": "string", "maxLength": 128, "description": "the same again: the same messages"},
        },
    },
    "Settle": {
        "type": "object",
        "required": ["consumer"],
        "additionalProperties": False,
        "properties": {"consumer": _CONSUMER, "acknowledge": _CURSORS, "release": _CURSORS},
    },
    "Chosen": {
        "oneOf": [
            {
                "type": "object",
                "required": ["cursors"],
                "additionalProperties": False,
                "properties": {"cursors": _CURSORS | {"minItems": 1}},
            },
            {"type": "object", "required": ["upto"], "additionalProperties": False, "properties": {"upto": _CURSOR}},
        ]
    },
    "Question": {
        "type": "object",
        "properties": {
            "event": {"$ref": "#/components/schemas/Event"},
            "filter": {"type": "string"},
            "id": _ID,
            "client": {"type": "string"},
            "namespace": {"type": "string"},
        },
    },
    "Trial": {
        "type": "object",
        "required": ["filter"],
        "properties": {
            "filter": {"oneOf": [{"type": "string"}, {"type": "object"}]},
            "namespace": {"type": "string"},
            "covering": {"type": "boolean", "default": True},
            "learn": {"type": "boolean", "default": False},
        },
    },
    "Arrival": {
        "type": "object",
        "required": ["event"],
        "properties": {"event": {"$ref": "#/components/schemas/Event"}, "namespace": {"type": "string"}},
    },
    "Comparison": {
        "type": "object",
        "properties": {
            "brokers": {"type": "integer", "minimum": 2, "maximum": 31},
            "policies": {"type": "array", "items": {"type": "string"}},
        },
    },
    "NewLink": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "url": {"type": "string"},
            "standbys": {"type": "array", "items": {"type": "string"}},
            "policy": {"type": "string"},
            "options": {"type": "object"},
            "token_file": {"type": "string"},
            "ca_file": {"type": "string"},
            "insecure": {"type": "boolean"},
            "when_full": {"enum": ["refuse", "drop"]},
            "namespaces": {"type": "array", "items": {"type": "string"}},
            "resend_from": {"type": "string"},
        },
    },
    "Problem": {
        "type": "object",
        "required": ["error", "status"],
        "properties": {
            "error": {"type": "string"},
            "status": {"type": "integer"},
            "position": {"type": "integer", "description": "The character of the filter at which the mistake is."},
            "corrected": {"type": "string", "description": "The filter as it was probably meant."},
        },
    },
}

_PROBLEM: Json = {
    "description": "What is wrong, and the culprit.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def document() -> Json:
    """Return the OpenAPI document of a broker."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "tamis broker", "version": __version__, "description": "Content-based publish/subscribe."},
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
        "paths": _paths(),
    }


_ACK: Json = {
    "name": "ack",
    "in": "query",
    "required": False,
    "schema": {"enum": ["auto"]},
    "description": "auto: what was written counts as read",
}

_TRACEPARENT: Json = {
    "name": "traceparent",
    "in": "header",
    "schema": {"type": "string"},
    "required": False,
    "description": "W3C Trace Context of the publisher; ignored unless the broker has traces and it is well-formed",
}

_SEARCH: Json = {"name": "search", "in": "query", "schema": {"type": "string"}, "required": False}

_LIMIT = "rows of a page, which also ends after 4 MiB; `next` leads on"

_TAKE = "Take messages that no other consumer holds, up to `limit` or 4 MiB"

_PUBLISH = "Publish events; they are durable when the answer comes"


def _paths() -> Json:
    id = _parameter("id", "path", {"type": "string", "minLength": 1}, required=True)
    namespace = _parameter("namespace", "query", {"type": "string", "default": "default"})
    client = _parameter("client", "query", {"type": "string"})
    after = _parameter("after", "query", {"type": "integer", "minimum": 0})
    before = _parameter("before", "query", {"type": "integer", "minimum": 0})
    limit = _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 1000}) | {"description": _LIMIT}
    reading = [_parameter("Last-Event-ID", "header", {"type": "string"}), _ACK]
    named = [id, namespace, client]  # a subscription
    return {
        **_event_paths(namespace, before, limit),
        "/v1/subscriptions": {
            "post": _operation(_SUBSCRIBE, "Subscribed", [], _NEW_SUBSCRIPTIONS, status="201"),
            "get": _operation("List subscriptions", "Page", [namespace, after, limit, _SEARCH]),
        },
        "/v1/subscriptions/{id}": {
            "get": _operation("Show a subscription", "Subscription", named),
            "put": _operation("Change its filter in one step", "Subscription", named, _json("ChangedSubscription")),
            "delete": _operation("Withdraw a subscription", "", named, status="204"),
        },
        "/v1/subscriptions/{id}/events": {"get": _stream([*named, *reading, limit])},
        **_log_paths(named, limit),
        **_question_paths(),
        **_admin_paths(before, limit, namespace),
        "/v1/statistics": {"get": _operation("What the broker did, per link and client", None, [])},
        "/healthz": {"get": _operation("Whether the broker takes events", None, [])},
        "/metrics": {"get": _text("Metrics for Prometheus", "text/plain", [])},
    }


def _event_paths(namespace: Json, before: Json, limit: Json) -> Json:
    return {
        "/v1/events": {
            "post": _operation(_PUBLISH, "Accepted", [namespace, *_once(), _TRACEPARENT], _EVENTS),
            "get": _operation("The last events published here", "RecentEvents", [before, limit]),
        },
        "/v1/deliveries": {
            "get": _operation("The last copies that went out to clients", "RecentDeliveries", [before, limit])
        },
    }


def _once() -> list[Json]:
    producer = _parameter("producer", "query", {"type": "string", "minLength": 1, "maxLength": 128})
    number = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    return [producer, *(_parameter(name, "query", number) for name in ("number", "after"))]


def _question_paths() -> Json:
    producer = _parameter("id", "path", {"type": "string", "minLength": 1, "maxLength": 128}, required=True)
    compared = "What each link policy would cost for what is here"
    return {
        "/v1/explain": {"post": _operation("Why an event matches, or not", None, [], _json("Question"))},
        "/v1/trial": {"post": _operation("What a filter would have got, and who covers it", None, [], _json("Trial"))},
        "/v1/matches": {"post": _operation("Which subscriptions an event matches", None, [], _json("Arrival"))},
        "/v1/comparison": {"post": _operation(compared, None, [], _json("Comparison"))},
        "/v1/producers/{id}": {"get": _operation("The last number taken of a producer, or null", None, [producer])},
    }


def _admin_paths(before: Json, limit: Json, namespace: Json) -> Json:
    link = _parameter("name", "path", {"type": "string", "minLength": 1, "maxLength": 128}, required=True)
    return {
        "/v1/audit": {"get": _operation("Who did what, the newest first; for admins", "Audit", [before, limit])},
        "/v1/links": {"get": _operation("The links to other brokers; for admins", None, [])},
        "/v1/links/{name}": {
            "put": _operation("Add a link; for admins", None, [link], _json("NewLink"), status="201"),
            "delete": _operation("Remove a link, and what waits for it; for admins", None, [link]),
        },
        "/v1/links/{name}/skip": {"post": _operation("Send no event over a link; for admins", None, [link])},
        "/v1/links/{name}/resume": {"post": _operation("Send events over a link again; for admins", None, [link])},
        "/v1/schema": {
            "get": _operation("The types of attributes in a namespace", None, [namespace]),
            "delete": _operation("Forget learned types that no subscription uses; for admins", None, [namespace]),
        },
    }


def _log_paths(subscription: list[Json], limit: Json) -> Json:
    bounds = [_parameter(name, "query", _CURSOR) for name in ("after", "upto")]
    return {
        "/v1/subscriptions/{id}/log": {
            "get": _operation("What a subscription got, a page at a time", "Log", [*subscription, *bounds, limit])
        },
        "/v1/subscriptions/{id}/acknowledge": {
            "post": _operation(
                "Say that everything up to a cursor was dealt with", "Cursor", subscription, _json("Cursor")
            )
        },
        **_consumer_paths(subscription, limit),
    }


def _consumer_paths(subscription: list[Json], limit: Json) -> Json:
    path, after = "/v1/subscriptions/{id}", _parameter("after", "query", _CURSOR)
    return {
        f"{path}/take": {"post": _operation(_TAKE, None, subscription, _json("Take"))},
        f"{path}/settle": {
            "post": _operation("Acknowledge or give back taken messages", None, subscription, _json("Settle"))
        },
        f"{path}/dead": {"get": _operation("Messages that were taken too often", None, [*subscription, after, limit])},
        f"{path}/dead/replay": {"post": _operation("Put dead letters back", None, subscription, _json("Chosen"))},
        f"{path}/dead/drop": {"post": _operation("Forget dead letters", None, subscription, _json("Chosen"))},
        **_webhook_paths(subscription, limit),
    }


def _webhook_paths(subscription: list[Json], limit: Json) -> Json:
    path, after = "/v1/subscriptions/{id}/webhook", _parameter("after", "query", {"type": "integer", "minimum": 0})
    listed = "Webhooks by host: all for admins, their own for others"
    return {
        path: {
            "put": _operation(
                "Send the messages of a subscription to an endpoint", None, subscription, _json("NewWebhook")
            ),
            "get": _operation("Where messages are sent, and how that goes", None, subscription),
            "delete": _operation("Send nothing more", "", subscription, status="204"),
        },
        f"{path}/rotate": {"post": _operation("Sign with a new secret", None, subscription, _json("NewSecret"))},
        f"{path}/suspend": {"post": _operation("Send nothing until it is resumed", None, subscription)},
        f"{path}/resume": {"post": _operation("Send what waits, and go on", None, subscription)},
        "/v1/webhooks": {"get": _operation(listed, None, [after, limit])},
    }


_SUBSCRIBE = "Make a subscription, or many of an array or NDJSON, all or none; the answer is then a page"

_NEW_SUBSCRIPTIONS: Json = {
    "application/json": {
        "schema": {
            "oneOf": [
                {"$ref": "#/components/schemas/NewSubscription"},
                {"type": "array", "items": {"$ref": "#/components/schemas/NewSubscription"}, "maxItems": 1000},
            ]
        }
    },
    "application/x-ndjson": {"schema": {"type": "string"}},
}

_EVENTS: Json = {
    "application/json": {
        "schema": {
            "oneOf": [
                {"$ref": "#/components/schemas/Event"},
                {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
            ]
        }
    },
    "application/x-ndjson": {"schema": {"type": "string"}},
    "application/cloudevents+json": {"schema": {"$ref": "#/components/schemas/CloudEvent"}},
    "application/cloudevents-batch+json": {
        "schema": {"type": "array", "items": {"$ref": "#/components/schemas/CloudEvent"}}
    },
}


def _json(name: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}


def _parameter(name: str, location: str, schema: Json, *, required: bool = False) -> Json:
    return {"name": name, "in": location, "schema": schema, "required": required}


def _operation(
    summary: str, answer: str | None, parameters: list[Json], body: Json | None = None, *, status: str = "200"
) -> Json:
    content = {"application/json": {"schema": {"type": "object"}}} if answer is None else _json(answer)
    success: Json = {"description": summary} if answer == "" else {"description": summary, "content": content}
    operation: Json = {
        "summary": summary,
        "parameters": parameters,
        "responses": {status: success, "4XX": _PROBLEM, "503": _PROBLEM, "507": _PROBLEM},
    }
    return operation if body is None else operation | {"requestBody": {"required": True, "content": body}}


def _stream(parameters: list[Json]) -> Json:
    summary = "What a subscription gets: `id:` is the cursor, `data:` has id, event and subscriptions"
    return _text(summary, "text/event-stream", parameters)


def _text(summary: str, kind: str, parameters: list[Json]) -> Json:
    good = {"description": summary, "content": {kind: {"schema": {"type": "string"}}}}
    return {"summary": summary, "parameters": parameters, "responses": {"200": good, "4XX": _PROBLEM}}
