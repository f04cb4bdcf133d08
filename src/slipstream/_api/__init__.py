"""The public Python API: streams, jobs and their results, trips, as ``import slipstream as ss`` offers them.

Streams are values that describe a network of boxes (``_network.algebra``); a job runs that network on the one engine
(``_network.running``) and commits its outputs (``_io.outputs``). Nothing here processes tuples itself. ``slipstream``
lists the public names and imports them when they are first used.
"""
