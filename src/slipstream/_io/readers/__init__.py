"""Spark streaming sources: files that grow, topics, sockets, recorded trains, and the user's own."""
