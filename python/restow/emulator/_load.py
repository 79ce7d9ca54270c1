"""The compiled half of this package."""

from typing import TYPE_CHECKING

import torch

from restow import _extension

if TYPE_CHECKING:
    from restow.emulator import _native as native
else:
    if torch.cuda.is_available():
        raise ImportError(
            "restow.emulator takes the place of the process's accelerator, and this process has "
            "CUDA; hide it with CUDA_VISIBLE_DEVICES= to use the emulator"
        )
    native = _extension.load("emulator", torch.__version__, "2.13")

__all__ = ["native"]
