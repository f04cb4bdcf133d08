"""Spatio-temporal cuboids: keyed state whose attributes are plain values or short streams of their own.

The thesis' idea in three promises: any key in O(1), any element of a key's recent past in O(1), and querying apart from
streaming. In the order of the data:

    schema, declare          what a cuboid holds: in Python, or CREATE CUBOID
    fragment, log            a fragment in memory (a NumPy table with a hash index), and at rest in the state store
    functions, expressions, sql, views   Streamonas-SQL, evaluated on keys or on arrivals
    keeper, memory, warm, stage          a fragment at work, in memory that workers share, as a processor of Spark
    stream, fill             any streaming DataFrame into a cuboid; files
    files, publish, snapshot, access, ask   whole batches for readers in other processes, and how they read and ask
    metrics, rtc             what every batch took, and what real-time consistency costs
    ticks                    stock-like series to try things on

Stands on ``errors``, ``kernels``, ``failpoints`` and ``session``; knows nothing of roads or tolls.
"""
