"""Trajectories in the formats of others: Parquet files with geometries or MEOS values, MF-JSON, GPX, KML, GeoJSON, WKT.

``binary`` encodes single trips as bytes, ``tables`` writes and reads Parquet, ``texts`` writes text, and
``interchange`` knows all formats by name.
"""
