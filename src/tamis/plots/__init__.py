"""Every picture: the only part that imports matplotlib, and only when a picture is drawn."""
