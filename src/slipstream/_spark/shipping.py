"""Code of the user's own on its way to workers, which may be unable to import the file that it comes from."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def ship(what: Any) -> None:
    """Let a function or class travel with the data it is used on, together with the module that defines it."""
    module = sys.modules.get(getattr(what, "__module__", "") or "")
    if isinstance(module, ModuleType) and _is_users(module):
        ship_module(module)


def ship_module(module: ModuleType) -> None:
    """Let everything that a module defines travel."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    is_ours = module.__name__ == "__main__" or module.__name__.partition(".")[0] == "slipstream"
    return file is not None and not is_ours and "site-packages" not in file
