"""The BerlinMOD benchmark on Spark: street networks, generator, both representations, 17 queries."""
