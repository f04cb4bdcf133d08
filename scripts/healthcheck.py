"""The health check of the image: a job with ``--metrics 9105``, or a console, answers on its port."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

PORTS = (9105, 8321)


def is_alive(port: int) -> bool:
    """Whether ``/healthz`` on a port of this container answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=3) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


if __name__ == "__main__":
    sys.exit(0 if any(map(is_alive, PORTS)) else 1)
