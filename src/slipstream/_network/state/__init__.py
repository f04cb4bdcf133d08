"""What boxes remember: groups, waiting partners, tables that know what changed."""
