"""The interface of the Trajectories page."""

from __future__ import annotations

from fastapi import APIRouter

from slipstream.console.problems import PROBLEMS

router = APIRouter(prefix="/api/trajectories", tags=["trajectories"], responses=PROBLEMS)
