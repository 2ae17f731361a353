"""Endpoints for those who share the queue of a subscription, or have it sent.

`consumers` lets programs take and settle messages; `dead_letters` lists, replays and drops what was taken too often;
`webhooks` has messages sent to an endpoint.
"""
