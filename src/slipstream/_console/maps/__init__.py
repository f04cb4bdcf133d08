"""What the Map page shows: positions of any job or file, and the roads and zones below them."""
