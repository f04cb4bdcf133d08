"""A network as a job: its folder, its inputs, its results, and ad hoc queries."""
