"""Spatio-temporal cuboids: keyed state whose attributes are plain values or short streams of their own.

The thesis' idea in three promises: any key in O(1), any element of a key's recent past in O(1), and state that can be
cut into fragments which never talk to each other. A fragment is a NumPy table with a hash index that compiled kernels
use directly; what changed in a batch leaves as a delta and a log of deltas is what Spark's state store keeps.

Stands on ``errors`` and ``kernels`` only; knows nothing of roads or tolls.
"""
