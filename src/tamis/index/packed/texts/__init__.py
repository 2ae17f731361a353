"""Filters about text, found by the literals that every match must hold.

`literals` says which literals a filter requires, and `programs` makes programs for kernels of LIKE patterns; `entries`
keeps what is left to decide, in columns; `segment` scans strings for the literals of many entries; `strings` lays out
the strings of events; `text_index` joins them. Start with `text_index`. Only the packed store and search import it.
"""
