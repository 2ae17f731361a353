"""Snapshots written and read by executors. `snapshot` is the driver's side, `building` and `reading` the workers'.

`summary` keeps what links have to carry beside a version.
"""
