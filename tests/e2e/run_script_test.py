"""`./run` where it needs to build nothing."""

import subprocess
import unittest

from command import ROOT


class RunScriptTest(unittest.TestCase):
    def run_script(self, *arguments, cwd="/"):
        return subprocess.run([ROOT / "run", *arguments], capture_output=True, text=True, cwd=cwd,
                              check=False)

    def test_help_goes_to_standard_output(self):
        run = self.run_script("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("./run test", run.stdout)

    def test_no_argument_is_a_usage_error(self):
        run = self.run_script()
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("usage", run.stderr)

    def test_what_is_not_available_says_so(self):
        run = self.run_script("fuzz")
        self.assertEqual((run.returncode, run.stdout), (3, ""))
        self.assertIn("not available in this version", run.stderr)

    def test_an_unknown_part_of_the_tests_is_a_usage_error(self):
        run = self.run_script("test", "nothing")
        self.assertEqual((run.returncode, run.stdout), (2, ""))

    def test_every_package_has_a_group_and_a_reason(self):
        groups = set()
        for line in (ROOT / "deps" / "debian.txt").read_text(encoding="utf-8").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            self.assertRegex(line, r"^[a-z]+ +[a-z0-9+.-]+ +# \S")
            groups.add(line.split()[0])
        self.assertEqual(groups, {"plan", "engine", "test", "bench", "python", "lint"})

    def test_every_python_package_has_a_group_a_version_and_a_reason(self):
        groups = set()
        for line in (ROOT / "deps" / "python.txt").read_text(encoding="utf-8").splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            self.assertRegex(line, r"^[a-z]+ +[A-Za-z0-9._-]+==[0-9][^ ]* +# \S")
            groups.add(line.split()[0])
        self.assertLessEqual({"python", "test", "torch", "mindspore"}, groups)


if __name__ == "__main__":
    unittest.main()
