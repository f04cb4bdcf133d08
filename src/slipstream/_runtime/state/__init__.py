"""The state of stages: stores, what is cached between batches, memory that workers share, numbers for text ids."""
