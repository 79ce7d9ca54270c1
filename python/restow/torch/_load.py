"""The compiled half of this package."""

from typing import TYPE_CHECKING

import torch

from restow import _extension

if TYPE_CHECKING:
    from restow.torch import _native as native
else:
    native = _extension.load("torch", torch.__version__, "2.13")

__all__ = ["native"]
