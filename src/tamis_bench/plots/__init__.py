"""The pictures of benchmarks."""
