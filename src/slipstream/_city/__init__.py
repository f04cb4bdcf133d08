"""Linear City: the roads, the traffic on them, and ten weeks of history.

What is simulated here is written as a run (``_feeds.run``).
"""
