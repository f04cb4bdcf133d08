"""Fault injection: jobs are killed, paused and starved of resources, and must still produce the same output.

A campaign runs a job undisturbed, then repeatedly with faults. After every fault, what is committed must be part of the
undisturbed output, and at the end all of it; or the job must have stopped with advice on what to do. Jobs run
as commands, as users run them (``subject``), in processes observed from outside (``process``). ``faults`` defines the
faults, ``comparison`` detects harm, ``campaign`` runs everything.
"""

#: the file in a campaign's folder with the outcome of every fault
NOTES = "faults.jsonl"
