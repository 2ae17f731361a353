"""Templates for filters that differ in literals only: `texts` for CQL2 text, `documents` for CQL2-JSON.

`columns` has the bounds of many texts of one shape as arrays. Whatever is unusual is left to the ordinary road
(`tamis.algebra.compiling`). Start with `texts`.
"""
