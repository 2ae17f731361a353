"""Traces of events for OpenTelemetry: publish, commit, match, hop, receive, deliver, webhook.

`contexts` makes the ids of traces of the ids of events, `broker_traces` makes spans of what a broker's steps take and
cause, and `exporting` is the only module that imports OpenTelemetry. Start with `broker_traces`. Without ``traces`` in
the configuration a broker imports `broker_traces` alone, and calls none of it for an event.
"""
