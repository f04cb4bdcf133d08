"""Moving points from files and texts of others, and back: GPX, CSV, WKT, OGC Moving Features JSON."""
