"""One of two processes that run a recipe: ``two_processes.py CODE plain|restow RESULT``.

Saves what came out, and what Restow did, for the test that compares.
"""

import dataclasses
import pathlib
import sys

import torch
from helpers import eventually
from pages import blocks, outcome, run

import restow.torch as rt


def main():
    code, way, result = sys.argv[1:]
    torch.set_num_threads(1)
    run(blocks("cookbook.md")[0], True)
    names = run(pathlib.Path(code).read_text(), way == "restow")
    results = outcome(names)
    eventually(lambda: rt.stats().units == 0)
    torch.save({"results": results, "stats": dataclasses.asdict(rt.stats())}, result)


if __name__ == "__main__":
    main()
