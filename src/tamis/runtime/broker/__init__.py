"""A broker as a process: its disk, its commits, its links to clients and neighbours, its configuration."""
