"""Shared by several commands: options, checks, tables."""
