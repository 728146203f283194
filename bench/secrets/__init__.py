"""Invented texts with secrets, and without: names × syntaxes × wrappers × encodings, and documents of known tools.

`cases.positives` and `cases.negatives` build them; `bench.masking_recall` scores the masker on them. Every part of a
combination (a name, a syntax, …) is either open or held out; a case is held out when one of its parts is. Rules are
written with the open cases in view only, so the held-out figure estimates what unseen combinations get.
"""
