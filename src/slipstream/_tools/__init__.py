"""Small tools that any package may use: child processes, logs, progress, atomic writes."""
