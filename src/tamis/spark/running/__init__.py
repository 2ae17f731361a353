"""Spark as a process: a session for this machine, its Java, its workers' daemon, its errors and its progress."""
