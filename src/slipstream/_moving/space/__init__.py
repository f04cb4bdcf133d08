"""Where things are: planes, reference systems, distances on the globe, and the geometries of others."""
