"""How Spark is started: sessions, the JVM's class archive, and the Python workers."""
