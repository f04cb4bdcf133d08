"""Planning: from a network to stages, and from stages to one Structured Streaming query."""
