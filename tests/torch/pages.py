"""Python blocks of the pages in docs, and a stand-in for restow.torch that only calls."""

import contextlib
import re

from helpers import ROOT

import restow.torch as rt

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


def blocks(page):
    """The blocks of a page, in order."""
    return _BLOCK.findall((ROOT / "docs" / page).read_text())


def sections(page):
    """Headings of the second rank, and the blocks below each."""
    text = (ROOT / "docs" / page).read_text()
    parts = _HEADING.split(text)[1:]
    return {
        heading: _BLOCK.findall(body)
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


class Plain:
    """What a program calls of restow.torch, without any region."""

    CheckpointPolicy = rt.CheckpointPolicy

    @staticmethod
    def configure(**settings):
        pass

    @staticmethod
    def swap_wrapper(module, **keywords):
        return module

    checkpoint_wrapper = swap_wrapper

    @staticmethod
    def region(mode, **keywords):
        return contextlib.nullcontext()

    class SwapManager:
        def set_forward_prefetch_layer(self, first, second):
            pass


def run(code, with_restow):
    """Runs a program; what it has at its end."""
    if not with_restow:
        code = code.replace("import restow.torch as rt", "from pages import Plain as rt")
        assert "restow.torch" not in code, "the plain run would use Restow"
    names = {"__name__": "recipe"}
    exec(compile(code, "recipe", "exec"), names)
    return names


def outcome(names):
    """Loss and gradients; of sharded parameters this process's part."""
    results = {"loss": names["loss"].detach()}
    for name, parameter in names["model"].named_parameters():
        gradient = parameter.grad
        gradient = gradient.to_local() if hasattr(gradient, "to_local") else gradient
        # A compiled module has a name in front of its parameters'.
        results[name.replace("_orig_mod.", "")] = None if gradient is None else gradient.clone()
    return results
