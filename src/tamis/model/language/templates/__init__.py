"""What differs in literals only is read once: `texts` makes templates of CQL2 text, `documents` of CQL2-JSON.

`columns` has the bounds of many texts of one shape as arrays. Whatever is unusual is left to the ordinary road
(`tamis.algebra.compiling`). Start with `texts`.
"""
