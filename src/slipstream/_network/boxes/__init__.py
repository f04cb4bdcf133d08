"""The boxes of the algebra as vectorised kernels, one module per kind.

``operators`` says what a box is; ``windows`` has the boxes that depend on order, ``movement`` those of positions,
``tolls`` those that price them, ``cuboids`` and ``archive`` those that keep what they see.
"""
