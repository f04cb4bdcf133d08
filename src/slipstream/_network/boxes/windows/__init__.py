"""Boxes on windows and in order: aggregate, latest, resample, running aggregates, and the kernels that they share."""
