"""The commands of Linear Road: simulate, history, toll, drive, validate, rate."""
