"""Terminals, pipes, full disks and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import tempfile
import unittest

from command import BINARY, LLAMA, ROOT, CommandTest

LARGE = str(ROOT / "examples" / "deepseek-v3-1024xh800.yaml")


def run_on_terminal(arguments, env=None, stream="stdout"):
    """Runs with one stream on a terminal; gives what that terminal showed."""
    primary, secondary = pty.openpty()
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: secondary}
    process = subprocess.Popen([BINARY, *arguments], stdin=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm", **(env or {})}, **streams)
    os.close(secondary)
    shown = b""
    while True:
        try:
            block = os.read(primary, 65536)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(primary)
    process.wait()
    return shown.decode()


class StreamsTest(CommandTest):
    def test_colour_only_on_a_terminal_that_wants_it(self):
        self.assertIn("\x1b[", run_on_terminal(["plan", LLAMA], {"NO_COLOR": ""}))
        self.assertNotIn("\x1b[", run_on_terminal(["plan", LLAMA], {"NO_COLOR": "1"}))
        self.assertNotIn("\x1b[", run_on_terminal(["plan", LLAMA, "--no-color"], {"NO_COLOR": ""}))
        self.assertNotIn("\x1b", self.succeed("plan", LLAMA).stdout)

    def test_progress_is_silent_in_a_pipe(self):
        self.assertEqual(self.succeed("plan", LARGE).stderr, "")

    def test_progress_clears_its_line_on_a_terminal(self):
        shown = run_on_terminal(["plan", LARGE], stream="stderr")
        self.assertNotIn("\n", shown)
        self.assertTrue(shown == "" or shown.endswith("\r\x1b[K"), repr(shown))
        self.assertEqual(run_on_terminal(["plan", LARGE, "--quiet"], stream="stderr"), "")

    def test_a_full_disk_is_an_error_with_nothing_on_standard_output(self):
        for option in ("--json=/dev/full", "--csv=/dev/full"):
            self.refuse("plan", LLAMA, option, code=3, message="/dev/full: cannot be written")
        self.assertTrue(os.path.exists("/dev/full") and not os.path.isfile("/dev/full"))
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = self.succeed("plan", LLAMA, code=3, stdout=full)
        self.assertIn("standard output: cannot be written", run.stderr)

    def test_a_folder_that_does_not_exist_is_an_error(self):
        self.refuse("plan", LLAMA, "--json=/nowhere/at/all.json", code=3,
                    message="/nowhere/at/all.json: cannot be written")

    def test_a_closed_standard_output_is_an_error(self):
        run = subprocess.run(["sh", "-c", 'exec "$0" plan "$1" >&-', BINARY, LLAMA],
                             stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 3)
        self.assertIn("standard output: cannot be written", run.stderr)

    def test_a_closed_standard_output_does_not_spoil_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            subprocess.run(["sh", "-c", 'exec "$0" plan "$1" "$2" >&- 2>&-', BINARY, LLAMA,
                            f"--json={out}"], check=False)
            with open(out, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["schema"], "restow.plan-report/1")

    def test_a_reader_that_goes_away_is_no_error(self):
        run = subprocess.run(
            ["bash", "-c", '"$0" plan "$1" --json | true; echo "${PIPESTATUS[0]}"', BINARY, LLAMA],
            capture_output=True, text=True, check=False)
        self.assertEqual((run.stdout, run.stderr), ("0\n", ""))

    def test_json_can_go_into_a_pipe_by_name(self):
        run = self.succeed("plan", LLAMA, "--json=/dev/stdout")
        self.assertEqual(run.stdout[:1], "{")

    def test_ctrl_c_gives_the_best_so_far(self):
        # The search may be over before the signal comes; then the answer is whole. Either way the
        # exit code and the report agree.
        primary, secondary = pty.openpty()
        process = subprocess.Popen([BINARY, "plan", LARGE, "--json", "--threads", "1"],
                                   stdout=subprocess.PIPE, stderr=secondary,
                                   stdin=subprocess.DEVNULL)
        os.close(secondary)
        try:
            os.read(primary, 1)  # the first progress line: the search runs
            process.send_signal(signal.SIGINT)
        except OSError:
            pass
        out, _ = process.communicate(timeout=250)
        os.close(primary)
        self.assertIn(process.returncode, (0, 130))
        report = json.loads(out)
        self.assertEqual(report["complete"], process.returncode == 0)


if __name__ == "__main__":
    unittest.main()
