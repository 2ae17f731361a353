"""A tree of peers without brokers: the distributed R-tree, sans-IO."""
