"""Text and its patterns: folding of case and accents, regular expressions, and one reading for all patterns.

`patterns` says whether a string meets a `Like`; start there. `folding` defines CASEI and ACCENTI, `regex_syntax` reads
the dialect of MATCHES, and `regex` runs it in linear time. LIKE itself is in `tamis.model.pattern`.
"""
