"""Import and export: the published BerlinMOD files and those of MobilityDB-BerlinMOD."""
