"""Small types whose values are ranges on one axis: dates, network addresses, UUIDs, decimals with a scale.

Each module is one type and needs nothing else; `tamis.model.types.registry` lists them.
"""
