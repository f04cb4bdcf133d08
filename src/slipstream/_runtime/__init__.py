"""What every stream job runs on: stages in Spark's stateful operators, state that stays warm, metrics of every batch.

Knows nothing of roads, boxes or queries; stands on the modules at the root of the package only.
"""
