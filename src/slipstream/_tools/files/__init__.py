"""Where files are, and how a folder or file appears as a whole or not at all."""
