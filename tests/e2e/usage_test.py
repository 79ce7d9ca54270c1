"""The command line itself: options, exit codes, what is not available yet."""

import json
import pathlib
import tempfile
import unittest

from command import FITTING, LLAMA, CommandTest, validate

SUBCOMMANDS = ("plan", "price", "explain", "compare", "export", "devices", "models", "schema")


class UsageTest(CommandTest):
    def test_help_and_version(self):
        self.assertRegex(self.succeed("--version").stdout, r"^restow \d+\.\d+\.\d+\n$")
        text = self.succeed("--help").stdout
        for subcommand in SUBCOMMANDS:
            self.assertIn(subcommand, text)
            one = self.succeed(subcommand, "--help").stdout
            for option in ("--json", "--csv", "--threads", "--strict", "--quiet", "--no-color"):
                self.assertIn(option, one)
            self.assertRegex(self.succeed(subcommand, "--version").stdout, r"^restow \d")

    def test_what_later_versions_bring_is_said_to_be_missing(self):
        for subcommand in ("simulate", "demo", "fit"):
            self.refuse(subcommand, "x", code=3, message="not available in this version")
        for option in (["--html", "x.html"], ["--html=x.html"], ["--trace"]):
            self.refuse("plan", LLAMA, *option, code=3, message="not available in this version")
        for dimension in ("swap=auto", "granularity=layer", "schedule=zb-v", "cp_kind=hybrid"):
            self.refuse("plan", LLAMA, dimension, code=3, message="not available in this version")

    def test_usage_errors_exit_2(self):
        self.refuse(code=2, message="a subcommand is expected")
        self.refuse("plam", LLAMA, code=2, message="did you mean 'plan'")
        self.refuse("plan", code=2, message="JOB is required")
        self.refuse("plan", LLAMA, "--jsn", code=2, message="did you mean '--json'")
        self.refuse("plan", LLAMA, "--threads", "0", code=2, message="threads")
        self.refuse("plan", LLAMA, "--top", "many", code=2, message="top")
        self.refuse("plan", LLAMA, "--json", "--csv", code=2, message="standard output")
        self.refuse("plan", LLAMA, "tpp=8", code=2, message="tpp")
        self.refuse("plan", LLAMA, "tp", code=2, message="tp")

    def test_json_without_a_value_does_not_take_the_next_argument(self):
        for arguments in (["--json", LLAMA], [LLAMA, "--json", "tp=8"], ["--json", LLAMA, "tp=8"]):
            validate(json.loads(self.succeed("plan", *arguments).stdout), "plan-report")

    def test_json_to_a_file_leaves_the_table_on_standard_output(self):
        with tempfile.TemporaryDirectory() as folder:
            out, rows = pathlib.Path(folder) / "out.json", pathlib.Path(folder) / "out.csv"
            run = self.succeed("plan", LLAMA, f"--json={out}", f"--csv={rows}")
            self.assertIn("layout", run.stdout)
            validate(json.loads(out.read_text(encoding="utf-8")), "plan-report")
            self.assertTrue(rows.read_text(encoding="utf-8").startswith("rank,"))
            self.assertEqual(sorted(p.name for p in pathlib.Path(folder).iterdir()),
                             ["out.csv", "out.json"])

    def test_dimensions_stand_anywhere_after_the_job(self):
        prices = [self.succeed("price", *arguments, "--quiet").stdout for arguments in (
            [LLAMA, *FITTING], [LLAMA, FITTING[0], "--threads", "1", *FITTING[1:]],
            ["--no-color", LLAMA, *FITTING])]
        self.assertEqual(prices[0], prices[1])
        self.assertEqual(prices[0], prices[2])

    def test_a_job_comes_from_standard_input(self):
        text = pathlib.Path(LLAMA).read_text(encoding="utf-8")
        for arguments in (["plan", "-"], ["price", "-", *FITTING], ["explain", "-", *FITTING],
                          ["compare", "-", "1", " ".join(FITTING)]):
            self.succeed(*arguments, stdin=text)

    def test_relative_paths_are_the_callers(self):
        job = pathlib.Path(LLAMA)
        self.succeed("plan", job.name, cwd=job.parent)

    def test_margin_needs_a_unit(self):
        self.refuse("plan", LLAMA, "--margin", "2", code=3, message="no unit")


if __name__ == "__main__":
    unittest.main()
