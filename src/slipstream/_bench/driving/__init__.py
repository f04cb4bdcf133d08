"""The driver: a run delivered in real time to a folder, a topic, or a socket."""
