"""The driver: delivers a run in real time to a folder, a topic or a socket."""
