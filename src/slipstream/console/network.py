"""The interface of the Network editor page."""

from __future__ import annotations

from fastapi import APIRouter

from slipstream.console.problems import PROBLEMS

router = APIRouter(prefix="/api/network", tags=["network"], responses=PROBLEMS)
