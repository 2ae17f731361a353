"""Exact covering by dominance of corners on the packed tree."""
