"""Starting Spark: sessions, the JVM's class archive, and the Python workers."""
