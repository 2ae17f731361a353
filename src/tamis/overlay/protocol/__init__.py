"""What a seat does when a message comes: joins, owners, boxes, events and repair, each in a module of its own."""
