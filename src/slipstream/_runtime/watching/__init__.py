"""What a job says about itself and how it is watched: status, starts, metrics, health, export."""
