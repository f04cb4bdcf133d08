"""The commands about this machine: doctor, prepare, examples."""
