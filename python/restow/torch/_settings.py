"""Settings of the process."""

import pathlib
from typing import Any, Literal, Optional, Union

from restow.errors import InputError
from restow.torch import _owners
from restow.torch._load import native
from restow.torch._regions import Size, size


def configure(
    *,
    file_dir: Union[str, pathlib.Path, None] = None,
    file_cap: Optional[Size] = None,
    host_cap: Optional[Size] = None,
    window: Optional[Size] = None,
    min_bytes: Optional[Size] = None,
    keep_last_region: Optional[bool] = None,
    hooks: Optional[Literal["proxy", "python"]] = None,
    watchdog_s: Optional[float] = None,
) -> None:
    """Settings of the process, from the next region on; what is left out stays.

    ``file_dir``: folder of the file tier, "" for none; ``file_cap`` and ``host_cap``: the most
    bytes on disk and in host memory; ``window``: device bytes in transit per direction;
    ``min_bytes``: below it, what no policy names stays; ``hooks``: who calls the engine, with the
    same results. Errors: InputError naming the argument.
    """
    if hooks not in (None, "proxy", "python"):
        raise InputError(f"hooks={hooks!r}; allowed are 'proxy' and 'python'")
    settings = native.settings()
    others = (file_dir, file_cap, host_cap, window, min_bytes, keep_last_region, watchdog_s)
    if file_dir is not None:
        settings["file_dir"] = str(file_dir)
    for name, value in (
        ("file_cap", file_cap),
        ("host_cap", host_cap),
        ("window", window),
        ("min_bytes", min_bytes),
    ):
        if value is not None:
            settings[name] = size(value, name)
    if keep_last_region is not None:
        settings["keep_last_region"] = keep_last_region
    if watchdog_s is not None:
        settings["watchdog_s"] = float(watchdog_s)
    if hooks is None or any(value is not None for value in others):
        restore(settings)
    if hooks is not None:
        native.use_proxy(hooks == "proxy")


def current() -> dict[str, Any]:
    """What `restore` takes."""
    return native.settings()


def restore(settings: dict[str, Any]) -> None:
    native.configure(**settings)
    _owners.forget_devices()
