"""The tests of tamis. A package, so that no other package of this name is found first."""
