"""How tuples are encoded: formats, schemas, ids, and the reasons for rejecting a line."""
