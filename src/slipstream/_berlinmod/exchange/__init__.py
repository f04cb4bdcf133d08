"""Files of other systems: the published BerlinMOD files and those of MobilityDB-BerlinMOD."""
