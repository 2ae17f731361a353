"""The functions of the language: `calls` makes nodes of calls in text, `temporal` says what the words about time mean.

`parse` and `cql2_json` use both; nothing here knows a schema.
"""
