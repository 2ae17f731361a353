"""``tamis demo``: earthquakes, storms and the console, on the data that come with tamis."""
