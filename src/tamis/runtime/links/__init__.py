"""The links of a broker to others: what was said about them, how they change while it runs, and how they are dialled.

Start with `tamis.runtime.links.link_set`, which the server asks. `said` decides between the configuration file and what
was said at run time; `changing` takes the steps, and the simulator runs it, too; `keeping` dials.
"""
