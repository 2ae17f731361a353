"""Endpoints for consumers that share a subscription.

`consumers` lets them take and settle messages; `dead_letters` lists, replays and drops what was taken too often.
"""
