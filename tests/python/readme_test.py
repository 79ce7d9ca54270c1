"""The Python snippets of README.md run as they stand."""

import re

import pytest
from conftest import ROOT

SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)


def test_there_is_one():
    assert SNIPPETS


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_it_runs(snippet, tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "README.md", "exec"), {"__name__": "__main__"})
