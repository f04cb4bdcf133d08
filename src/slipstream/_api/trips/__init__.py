"""Trips from tables of positions: building them, joining them, and matching them to roads."""
