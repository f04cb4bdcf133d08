"""Faults on purpose: toll engines are killed, paused, starved and lied to, and must put out what they would anyway.

A campaign tolls a run undisturbed, then again and again with faults. After every fault what is committed must be the
beginning of the undisturbed outputs, and at the end all of them; or the engine has stopped and said what to do. Engines
run as commands, the way people run them. Stands on ``tolls`` for the names of its files only.
"""

#: the file of a campaign's folder that says what came of every fault
NOTES = "faults.jsonl"
