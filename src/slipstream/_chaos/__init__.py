"""Faults on purpose: jobs are killed, paused, starved and lied to, and must put out what they would anyway.

A campaign runs a job undisturbed, then again and again with faults. After every fault what is committed must be part of
the undisturbed outputs, and at the end all of them; or the job has stopped and said what to do. Jobs run as commands,
the way people run them (``subject``), as processes that are watched from outside (``engine``). ``faults`` has what is
done to them, ``comparison`` whether it did harm, ``campaign`` the order of events.
"""

#: the file of a campaign's folder that says what came of every fault
NOTES = "faults.jsonl"
