"""Tables of positions: which columns they have, and the files that they come from."""
