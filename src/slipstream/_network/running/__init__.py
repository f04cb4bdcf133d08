"""A network as a job: its folder, its inputs, its results, and queries that come and go."""
