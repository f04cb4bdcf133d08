"""The public Python API: streams, jobs and their results, as ``import slipstream as ss`` offers them.

Streams are values that describe a network of boxes (``network.algebra``); a job runs that network on the one engine
(``network.execution``) and commits its outputs (``io.outputs``). Nothing here processes tuples itself. ``slipstream``
lists the public names and imports them when they are first used.
"""
