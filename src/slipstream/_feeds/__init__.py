"""How tuples travel and rest: the tuple itself, recorded runs, text files.

Stands on ``errors``, ``session``, ``progress`` and ``kernels`` only.
"""
