"""The functions of the language: `calls` builds nodes from calls in text, `temporal` defines the functions on time.

`suggestions` proposes replacements for functions that do not exist. `parse` and `cql2_json` use them; no module here
uses a schema.
"""
