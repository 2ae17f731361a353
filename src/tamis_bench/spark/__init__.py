"""Events against boxes on Spark: the pipeline beside range joins and DuckDB."""
