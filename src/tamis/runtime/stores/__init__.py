"""Where a broker keeps what must survive it: one protocol, two engines.

Start with `protocol`, which is all that the rest of a broker knows. `tables` has what the engines share: the same
records with the same checksums in the same tables (`books`, `messages`, `retention`, `audit_log`). `sqlite_store` is a
file of its own, `postgres_store` a schema of a PostgreSQL database with a lease (`lease`); `opening` chooses.
"""
