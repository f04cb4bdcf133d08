"""Roads: a routable graph from the files of others, matching positions to it, and places along its routes."""
