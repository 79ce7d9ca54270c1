"""Running the built command in tests."""

import json
import os
import pathlib
import subprocess
import unittest

import jsonschema

ROOT = pathlib.Path(os.environ.get("RESTOW_ROOT", pathlib.Path(__file__).parents[2]))
BINARY = os.environ.get("RESTOW_BINARY", str(ROOT / "build" / "release" / "restow"))
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
LLAMA = str(ROOT / "examples" / "llama3-70b-64xh100.yaml")
# A setting of that job that fits and one that does not.
FITTING = ["tp=8", "pp=4", "vpp=1", "recompute=full"]
TOO_LARGE = ["tp=8", "pp=1", "vpp=1", "recompute=off"]


def restow(*arguments, stdin=None, env=None, cwd=None, **options):
    """Runs the command to its end; stdout and stderr are captured as text."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([BINARY, *map(str, arguments)], input=stdin, text=True, cwd=cwd,
                          env={**os.environ, **(env or {})}, timeout=250, check=False, **options)


def validate(document, name):
    """Holds a document against the published schema NAME; anything wrong raises."""
    schema = json.loads(restow("schema", name).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)


class CommandTest(unittest.TestCase):
    """Assertions about one run."""

    def succeed(self, *arguments, code=0, **options):
        run = restow(*arguments, **options)
        self.assertEqual(run.returncode, code, f"{arguments}\n{(run.stdout or '')[-2000:]}\n{run.stderr}")
        return run

    def refuse(self, *arguments, code, message, **options):
        """An error: its exit code, one line on standard error, nothing on standard output."""
        run = self.succeed(*arguments, code=code, **options)
        self.assertEqual(run.stdout or "", "")
        self.assertRegex(run.stderr, r"^restow: error: [^\n]+\n$")
        self.assertIn(message, run.stderr)
        return run

    def check_sums(self, candidate):
        self.assertEqual(sum(candidate["memory"].values()), candidate["peak_bytes"])
        step = candidate["step_s"]
        self.assertAlmostEqual(sum(candidate["time"].values()), step, delta=1e-9 * step)
        self.assertEqual(candidate["fits"], candidate["peak_bytes"] <= candidate["limit_bytes"])
        self.assertEqual(candidate["peak_bytes"], max(r["peak_bytes"] for r in candidate["ranks"]))

    def check_width(self, text, most=100):
        for line in text.splitlines():
            self.assertLessEqual(len(line), most, line)
