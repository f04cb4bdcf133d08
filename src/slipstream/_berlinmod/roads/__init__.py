"""Street networks: read from files, made up by rule, and the graph that vehicles drive on."""
