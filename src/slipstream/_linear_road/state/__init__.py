"""The state of Linear Road: cars, segments, accidents, accounts, and ten weeks of history."""
