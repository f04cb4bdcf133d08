"""Linear City: the roads, the traffic on them, and ten weeks of history.

Stands on ``feeds``: what is simulated here is written as a run there.
"""
