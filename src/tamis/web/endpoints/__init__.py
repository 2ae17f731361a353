"""The endpoints, one file each; `tamis.web.app` lists them."""
