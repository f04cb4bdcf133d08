"""Spark streaming sources: growing files, topics, sockets, recorded trains, and user-defined sources."""
