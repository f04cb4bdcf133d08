"""What jobs read and how it gets to them: files, folders, topics and sockets as Spark streams."""
