"""What links have to carry of many subscriptions. `reduce` plans on the driver, `reducing` runs in the workers."""
