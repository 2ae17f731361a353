"""The subscription language: OGC CQL2 as text and as JSON."""
