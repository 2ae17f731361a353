"""Endpoints for consumers that share the queue of a subscription, and for webhooks.

`consumers` lets programs take and settle messages; `dead_letters` lists, replays and drops what was taken too often,
and `letters` knows whose each letter is; `webhooks` has messages sent to an endpoint.
"""
