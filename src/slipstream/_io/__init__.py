"""What jobs read and write: files, folders, topics and sockets as Spark streams; outputs as Delta Lake tables."""
