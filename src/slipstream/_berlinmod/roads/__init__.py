"""Street networks: read from files or generated, and the graph that vehicles drive on."""
