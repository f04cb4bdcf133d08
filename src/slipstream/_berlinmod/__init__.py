"""BerlinMOD: street networks, generator, both representations, 17 queries, on Spark. Imports ``moving`` and below."""
