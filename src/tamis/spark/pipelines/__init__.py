"""A pipeline as a file: read, compile, reduce, index, match, report. Start with `pipeline_file` and `pipeline`."""
