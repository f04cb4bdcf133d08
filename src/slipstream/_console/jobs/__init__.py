"""The jobs of the workspace: their state and health, and starting and resuming them."""
