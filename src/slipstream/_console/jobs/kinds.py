"""What the kinds of jobs differ in: how late their results are, and how late they may be."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from slipstream._errors import SlipstreamError
from slipstream._linear_road.job.toll_journal import RESPONSE_LIMITS, response_times
from slipstream._linear_road.job.toll_layout import TOLL
from slipstream._network import yaml_files
from slipstream._network.quality.monitor import delay_limits, longest_delays
from slipstream._network.running.run_folder import FILE as NETWORK_FILE
from slipstream._runtime.watching.following import FollowedJob


def follow(folder: Path, kind: str) -> FollowedJob:
    """Follow a job from its beginning."""
    if not (folder / NETWORK_FILE).is_file():
        return FollowedJob(folder, response_times, RESPONSE_LIMITS if kind == TOLL else {})
    with suppress(SlipstreamError):
        return FollowedJob(folder, longest_delays, delay_limits(yaml_files.load(folder / NETWORK_FILE, unloaded=True)))
    return FollowedJob(folder, longest_delays, {})
