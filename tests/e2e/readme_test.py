"""The examples of README.md run as they stand."""

import os
import re
import shlex
import subprocess
import tempfile
import unittest

from command import BINARY, ROOT

# What builds or tests everything is not run from inside a test.
NOT_RUN = ("./run test", "./run bench", "./run lint", "./run python")


def commands():
    """(command, output expected or "") of the console blocks, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"```(?:console|sh)\n(.*?)```", text, re.S):
        for line in block.splitlines():
            line = re.sub(r"^\$ ", "", line)
            line = re.sub(r"\s+#.*$", "", line)
            if line.startswith(("./run ", "restow ")) and not line.startswith(NOT_RUN):
                yield line


class ReadmeTest(unittest.TestCase):
    def test_it_starts_with_plan_and_test(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        found = re.findall(r"^(?:\$ )?(\./run .*?)(?:\s+#.*)?$", text, re.M)
        self.assertEqual(found[:2], ["./run plan examples/llama3-70b-64xh100.yaml", "./run test"])

    def test_its_examples_run(self):
        ran = 0
        with tempfile.TemporaryDirectory() as folder:
            for name in ("examples", "data"):
                os.symlink(ROOT / name, os.path.join(folder, name))
            for command in commands():
                words = shlex.split(command)
                with self.subTest(command=command):
                    run = subprocess.run([BINARY, *words[1:]], capture_output=True, text=True,
                                         cwd=folder, check=False)
                    self.assertIn(run.returncode, (0, 4), run.stderr)
                    self.assertNotEqual(run.stdout, "")
                ran += 1
        self.assertGreater(ran, 5)

    def test_files_it_links_to_exist(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            self.assertTrue((ROOT / target).exists(), target)


if __name__ == "__main__":
    unittest.main()
