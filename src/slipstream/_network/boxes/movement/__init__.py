"""Boxes on the positions of moving things: order, zones, distances, spans of time, meetings."""
