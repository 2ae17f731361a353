"""Rows of subscriptions become checked ones. `compile` plans on the driver, `compiling` runs in the workers.

`typed` reads columns of bounds instead of filters.
"""
