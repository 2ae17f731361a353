"""The commands about filters and files of events: try, match, explain, covers, reduce, import, verify.

`reading` and `prepare` turn arguments into events and subscriptions; the other modules are one command each.
"""
