"""The files of a broker with a SQLite store: their room, their lock and head, backups, checks and migrations."""
