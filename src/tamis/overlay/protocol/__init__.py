"""How a seat handles messages: joins, owners, boxes, events and repair, each in a separate module."""
