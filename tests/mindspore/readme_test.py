"""README's section on MindSpore runs as it stands."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_section_runs_and_prints_what_moved():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [snippet] = re.findall(r'```bash\n\./run python-mindspore -c "\n(.*?)"\n```', text, re.S)
    assert len(snippet.strip().splitlines()) <= 10
    run = subprocess.run(
        [sys.executable, "-c", snippet], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "bytes_out=" in run.stdout
    assert "bytes_out=0" not in run.stdout
    assert "GELU" in run.stdout or "SequentialCell" in run.stdout
