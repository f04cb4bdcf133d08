"""OGC API - Moving Features, read only: the trips of the workspace for programs that know the standard.

    collections     which data sets are served, and their trips in longitudes and latitudes
    parameters      what a request may ask: bbox, datetime, limit, leaf, subTrajectory, subTemporalValue
    documents       what the standard calls things: collections, features, temporal geometries and properties
    feature_routes  the addresses

A mover is a feature, and each unbroken movement of its trips a temporal geometry of it. All coordinates are longitudes
and latitudes; a data set whose reference system is not known is not served. The parts of the standard that change data
(POST, PUT, DELETE) do not exist here.
"""
