"""``python -m slipstream`` is the command ``slipstream``."""

from slipstream._cli import main

main()
