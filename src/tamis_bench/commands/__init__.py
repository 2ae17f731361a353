"""The commands of ``tamis bench``: one module each; `app` joins them."""
