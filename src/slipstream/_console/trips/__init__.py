"""The Trajectories page: recorded journeys, and the results of queries."""
