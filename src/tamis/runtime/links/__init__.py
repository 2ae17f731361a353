"""The links of a broker to others: which there are, how they change while it runs, and how they are dialled.

Start with `tamis.runtime.links.link_set`, which the server uses. `overrides` merges the configuration file with the
changes at run time; `changing` takes the steps, and the simulator runs it, too; `keeping` dials.
"""
