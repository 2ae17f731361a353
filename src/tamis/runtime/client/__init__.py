"""The client's side of a broker: `tamis.connect`, and plain HTTP for programs that keep their own cursor."""
