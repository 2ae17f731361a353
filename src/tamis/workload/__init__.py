"""Data sets and generators: what examples, experiments and benchmarks run on."""
