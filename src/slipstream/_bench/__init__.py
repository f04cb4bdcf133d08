"""A benchmark kit for any engine that runs Linear Road: driver, validator, baselines, reports.

Stands on ``feeds``; never on the toll engine, whose answers it judges.
"""
