"""Splits subscriptions into components: one by one (`components`), or many of one shape at once (`shapes`)."""
