"""How tuples are written: encodings, schemas, ids, and what becomes of a line that does not fit."""
