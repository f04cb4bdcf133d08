"""What all functions of columns take: a column, or its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import Column

#: a column, or its name
Columnlike: TypeAlias = "Column | str"
#: the types of what moves or changes, which one function can restrict
Of: TypeAlias = Literal["mpoint", "tfloat", "tint", "tbool", "ttext"]


def column(given: Columnlike) -> Column:
    """Return a column, of its name if need be."""
    from pyspark.sql import functions as sf

    return sf.col(given) if isinstance(given, str) else given


def name_for(name: str, of: Of) -> str:
    """Return what an operator is called for a type: ``atperiods``, but ``atperiods_tfloat``."""
    return name if of == "mpoint" else f"{name}_{of}"
