"""Settings of the process, from RESTOW_… variables and `configure`."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
from typing import Any, Union

from restow.errors import InputError

__all__ = ["Settings", "Size", "configure", "current", "restore", "size"]

Size = Union[int, str]

_UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGTP", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)},
    "KB": 1000,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*\Z")


def size(value: Size, name: str) -> int:
    """Bytes of an integer or a text with a unit. Errors: InputError naming the argument."""
    if isinstance(value, str):
        match = _SIZE.match(value)
        if match is not None and match[2] in _UNITS:
            return int(float(match[1]) * _UNITS[match[2]])
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise InputError(f"{name}={value!r} is neither bytes nor a text with a unit like '20GiB'")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes in bytes; -1: the engine's default, or no cap."""

    file_dir: str = ""
    file_cap: int = -1
    host_cap: int = -1
    window: int = -1
    min_bytes: int = 1 << 20
    keep_last_region: bool = True
    check_changes: bool = True


def _from_environment() -> Settings:
    settings = Settings(file_dir=os.environ.get("RESTOW_FILE_DIR", ""))
    for name in ("file_cap", "host_cap", "window", "min_bytes"):
        variable = f"RESTOW_{name.upper()}"
        if variable in os.environ:
            amount: dict[str, Any] = {name: size(os.environ[variable], variable)}
            settings = dataclasses.replace(settings, **amount)
    return settings


_current = _from_environment()


def current() -> Settings:
    """The settings that the next region takes."""
    return _current


def restore(settings: Settings) -> None:
    """Makes `settings` those of the next region."""
    global _current
    _current = settings


def configure(
    *,
    file_dir: Union[str, pathlib.Path, None] = None,
    file_cap: Size | None = None,
    host_cap: Size | None = None,
    window: Size | None = None,
    min_bytes: Size | None = None,
    keep_last_region: bool | None = None,
    check_changes: bool | None = None,
) -> None:
    """Settings of the process, from the next region on; what is left out stays.

    ``file_dir``: folder of the file tier, "" for none; ``file_cap`` and ``host_cap``: the most
    bytes on disk and in host memory; ``window``: bytes in transit per direction; ``min_bytes``:
    below it, what no policy names stays; ``check_changes``: notice by checksums that a saved tensor
    was changed in place, which MindSpore itself does not on CPU. Errors: InputError naming the
    argument.
    """
    changes: dict[str, Any] = {}
    if file_dir is not None:
        folder = str(file_dir)
        if folder and not os.path.isdir(folder):
            raise InputError(f"file_dir={folder!r} is not a folder; make it, or name another")
        changes["file_dir"] = folder
    for name, value in (
        ("file_cap", file_cap),
        ("host_cap", host_cap),
        ("window", window),
        ("min_bytes", min_bytes),
    ):
        if value is not None:
            changes[name] = size(value, name)
    if keep_last_region is not None:
        changes["keep_last_region"] = keep_last_region
    if check_changes is not None:
        changes["check_changes"] = check_changes
    restore(dataclasses.replace(current(), **changes))
