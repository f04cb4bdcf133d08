"""Spatio-temporal cuboids: keyed state whose attributes are plain values or short streams of their own.

The thesis makes three promises: any key in O(1), any element of a key's recent past in O(1), and querying independent
of streaming. In the order of the data:

    schema, declare          the declaration of a cuboid: in Python, or CREATE CUBOID
    fragment, log            a fragment in memory (a NumPy table with a hash index), and in the state store
    query/                   Streamonas-SQL, evaluated on keys or on arrivals
    fragment_state           a fragment in a stream: append, continuous queries, save, publish
    sources                  feeds that fill a cuboid
    snapshots/               published batches, for readers in other processes
    consistency              what real-time consistency costs
    example_series           stock-like series for examples

Knows nothing of roads or tolls.
"""
