"""Street networks from files of others: read, projected, repaired, joined to a graph."""
