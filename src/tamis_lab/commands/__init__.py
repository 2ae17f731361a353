"""The commands of ``tamis lab``: `app` has them, `progress` and `screen` what they show."""
