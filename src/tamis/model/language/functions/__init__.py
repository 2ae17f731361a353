"""The functions of the language: `calls` makes nodes of calls in text, `temporal` says what the words about time mean.

`suggestions` says what to write instead of functions that do not exist. `parse` and `cql2_json` use them; nothing here
knows a schema.
"""
