"""An empty picture and how it is written. Same data, same bytes: no date, no random names inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tamis.errors import MissingExtraError, ModelError

__all__ = ["new_figure", "write_figure"]

_KINDS = (".svg", ".png", ".pdf")


def new_figure(width: float, height: float) -> Any:
    """Return a matplotlib figure of this size in inches; `MissingExtraError` when there is no matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("pictures", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure as .svg, .png or .pdf."""
    import matplotlib

    check_kind(path)
    dateless = {"CreationDate" if path.suffix == ".pdf" else "Date": None} if path.suffix != ".png" else {}
    with matplotlib.rc_context({"svg.hashsalt": "tamis", "svg.fonttype": "none"}):
        figure.savefig(path, metadata=dateless)


def check_kind(path: Path) -> None:
    """Refuse a file that no picture can be written to, before hours of work."""
    if path.suffix not in _KINDS:
        raise ModelError(f"{path}: a picture is a {', '.join(_KINDS[:-1])} or {_KINDS[-1]} file")
