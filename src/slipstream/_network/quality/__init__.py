"""Quality of service: what boxes cost, whether the machine keeps up, what to shed, and cheaper networks."""
