"""A benchmark kit for any engine that runs Linear Road: driver, validator, baselines, reports; Streaming BerlinMOD.

The validator never imports the toll engine, whose answers it judges.
"""
