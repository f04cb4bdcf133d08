"""The L-rating: how many expressways an engine sustains on this machine, measured from outside.

``trial`` has the figures of one run in real time, ``doors`` how the driver reaches an engine, ``programs`` the engines
that can be started, ``outside`` a trial through a door, ``engines`` all that can be rated, ``search`` the search for
the largest L, ``full`` all three hours.
"""
