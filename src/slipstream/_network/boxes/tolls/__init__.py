"""Boxes that toll: Linear Road's answers, and zones with prices."""
