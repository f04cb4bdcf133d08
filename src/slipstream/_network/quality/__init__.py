"""Quality of service: costs of boxes, load analysis and shedding, and the optimiser."""
