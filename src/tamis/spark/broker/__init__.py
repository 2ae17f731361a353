"""A broker as a source and a sink of Spark: the format ``tamis``. Start with `data_source`.

Workers import `source`, `sink` and `rows`; they speak HTTP to the broker and need no session.
"""
