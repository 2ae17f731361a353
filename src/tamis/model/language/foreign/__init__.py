"""Filters written in other languages: EventBridge patterns and SQL selectors, read into the syntax tree of CQL2."""
