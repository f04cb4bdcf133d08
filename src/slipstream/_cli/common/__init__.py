"""What several commands share: options, checks, tables."""
