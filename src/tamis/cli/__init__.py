"""The command line: one file per command, each of which reads arguments, calls the library and shows the answer."""
