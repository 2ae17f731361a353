"""The model: attributes and their types, events, subscriptions, the language, bulk columns."""
