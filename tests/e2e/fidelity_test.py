"""The scoreboard against measured runs: its shape, its figures held by a ratchet, calibrate."""

import csv
import io
import json
import pathlib
import tempfile
import unittest

from command import ROOT, CommandTest, restow, validate

OWN_RUNS = ROOT / "data" / "measured-runs.csv"
SHARED_RUNS = ROOT.parent / "shared" / "data" / "measured-runs.csv"
RATCHET = json.loads((ROOT / "tests" / "fidelity" / "ratchet.json").read_text())
# Figures of another machine's floating point may differ in the last digits.
SLACK = 1e-3


def figures(board):
    """What the ratchet holds: lower is better, but for counts of scored runs and for tau."""
    return {
        "memory_median_pct": board["memory"]["median_abs_pct"],
        "memory_p95_pct": board["memory"]["p95_abs_pct"],
        "time_median_pct": board["time"]["median_abs_pct"],
        "time_p95_pct": board["time"]["p95_abs_pct"],
        "oom_called_fitting": board["oom"]["called_fitting"],
        "fits_called_oom": board["fits"]["called_oom"],
        "regret_max_pct": board["ranking"]["regret_max_pct"],
        "memory_unscored": -board["memory"]["n"],
        "time_unscored": -board["time"]["n"],
        "tau_lost": -board["ranking"]["tau_min"],
    }


class FidelityTest(CommandTest):
    def board(self, runs):
        board = json.loads(self.succeed("validate", runs, "--json").stdout)
        validate(board, "validation")
        return board

    def hold(self, name, runs):
        held = RATCHET[name]
        now = figures(self.board(runs))
        self.assertEqual(sorted(now), sorted(held))
        for key, value in now.items():
            self.assertLessEqual(value, held[key] + SLACK, f"{name}: {key} got worse")

    def test_the_repositorys_runs_are_priced_no_worse_than_ever(self):
        self.hold("own", OWN_RUNS)

    def test_the_shared_runs_are_priced_no_worse_than_ever(self):
        if not SHARED_RUNS.exists():
            self.skipTest("the shared collection of runs is not beside this checkout")
        self.hold("shared", SHARED_RUNS)

    def test_sources_of_the_repositorys_runs_are_stated(self):
        with OWN_RUNS.open(newline="") as file:
            for row in csv.DictReader(file):
                self.assertTrue(row["source"], row["id"])

    def test_every_figure_is_the_mean_of_its_scores(self):
        board = self.board(OWN_RUNS)
        for kind in ("memory", "time"):
            sizes = sorted(abs(s["pct"]) for s in board["scores"] if s["kind"] == kind)
            middle = (sizes[(len(sizes) - 1) // 2] + sizes[len(sizes) // 2]) / 2
            self.assertEqual(board[kind]["n"], len(sizes))
            self.assertAlmostEqual(board[kind]["median_abs_pct"], middle, places=9)
        for score in board["scores"]:
            error = 100 * (score["predicted"] - score["measured"]) / score["measured"]
            self.assertAlmostEqual(score["pct"], error, places=9)
        scored = {s["id"] for s in board["scores"]}
        self.assertEqual(board["rows"], 42)
        self.assertLessEqual(len(scored), board["rows"])

    def test_groups_by_device_add_up(self):
        board = json.loads(self.succeed("validate", OWN_RUNS, "--by", "device", "--json").stdout)
        validate(board, "validation")
        self.assertEqual(sum(g["time"]["n"] for g in board["by_device"]), board["time"]["n"])
        self.refuse("validate", OWN_RUNS, "--by", "colour", code=2, message="source, model and device")

    def test_which_runs_are_scored_does_not_depend_on_their_ids(self):
        with OWN_RUNS.open(newline="") as file:
            rows = list(csv.DictReader(file))
        renamed = io.StringIO()
        writer = csv.DictWriter(renamed, rows[0].keys())
        writer.writeheader()
        for i, row in enumerate(rows):
            writer.writerow({**row, "id": f"x-{i:03}"})
        before = self.board(OWN_RUNS)
        after = json.loads(self.succeed("validate", "-", "--json", stdin=renamed.getvalue()).stdout)
        for kind in ("memory", "time"):
            self.assertEqual(after[kind], before[kind])
        self.assertEqual(after["unscorable"], before["unscorable"])

    def test_a_run_is_shown_whole_and_its_job_can_be_priced(self):
        run = json.loads(self.succeed("validate", OWN_RUNS, "--row", "simumax-001", "--json").stdout)
        validate(run, "run")
        self.assertEqual([r["measured"] for r in run["ranks"]], [66.55, 62.97])
        self.check_sums(run["candidate"])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "job.yaml"
            path.write_text(run["job"])
            price = json.loads(self.succeed("price", path, "--json").stdout)
        self.assertEqual(price["candidate"]["peak_bytes"], run["candidate"]["peak_bytes"])
        self.assertEqual(price["candidate"]["step_s"], run["candidate"]["step_s"])
        text = self.succeed("validate", OWN_RUNS, "--row", "simumax-001").stdout
        for word in ("66.55", "dp: 4", "activations"):
            self.assertIn(word, text)

    def test_a_run_that_cannot_be_scored_says_why(self):
        run = json.loads(self.succeed("validate", OWN_RUNS, "--row", "mlm-ci-006", "--json").stdout)
        self.assertIn("test run", run["time_unscorable"])

    def test_a_wrong_table_is_refused_with_its_place(self):
        for text, message in (("", "empty"), ("a,b\n1,2\n", "column 'id'"),
                              ("id,tp\nx-1,2\nx-1,4\n", "<stdin>:3:1: the id 'x-1' stands twice"),
                              ("id,tp\nx-1\n", "<stdin>:2:1: this row has 1 cells"),
                              ("id,switches\nx-1,fast\n", "'fast' is no key=value"),
                              ('id,tp\n"x-1,2\n', "<stdin>:2:1: a quote opens here")):
            run = restow("validate", "-", stdin=text)
            self.assertEqual(run.returncode, 3, text)
            self.assertIn(message, run.stderr)
        self.refuse("validate", OWN_RUNS, "--row", "simumax-01", code=3,
                    message="did you mean 'simumax-001'?")

    def test_calibrate_fits_what_runs_determine_and_its_name_appears_in_reports(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "ours.yaml"
            run = self.succeed("calibrate", OWN_RUNS, "-o", path, "--json")
            report = json.loads(run.stdout)
            validate(report, "calibration")
            self.assertEqual([x["by"] for x in report["left_out"]], ["model", "source"])
            for constant in report["constants"]:
                if constant["rows"] < 2:
                    self.assertIn("only one run", constant["remark"])
            example = ROOT / "examples" / "llama3-70b-64xh100.yaml"
            plan = json.loads(self.succeed("plan", example, "--calibration", path, "--json").stdout)
            self.assertEqual(plan["calibration"]["id"], "ours")
            again = json.loads(self.succeed("validate", OWN_RUNS, "--calibration", path, "--json").stdout)
            self.assertEqual(again["calibration"]["id"], "ours")
            # The file holds four digits of each constant, so the figures agree to a few hundredths.
            for figure in ("median_abs_pct", "p95_abs_pct", "bias_pct"):
                self.assertAlmostEqual(again["time"][figure], report["time"][figure], delta=0.05)
            self.assertNotEqual(report["time"], report["time_before"])

    def test_calibrate_refuses_runs_that_determine_nothing(self):
        template = self.succeed("calibrate", "--template").stdout
        rows = list(csv.DictReader(io.StringIO(template)))
        self.assertEqual(len(rows), 2)
        one = "\n".join(template.splitlines()[:2]) + "\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "c.yaml"
            run = restow("calibrate", "-", "-o", path, stdin=one)
            self.assertEqual(run.returncode, 3)
            self.assertIn("determine none of the constants", run.stderr)
            self.assertIn("only one run can tell it", run.stderr)
            self.assertFalse(path.exists())
            self.succeed("calibrate", "-", "-o", path, stdin=template)
            self.assertTrue(path.exists())
        self.assertEqual(restow("calibrate", OWN_RUNS).returncode, 2)

    def test_the_page_is_current(self):
        if not SHARED_RUNS.exists():
            self.skipTest("the shared collection of runs is not beside this checkout")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "fidelity.md"
            self.succeed("validate", "../shared/data/measured-runs.csv", "--page", page, "--notes",
                         "docs/fidelity-notes.yaml", cwd=ROOT)
            for name in ("fidelity.md", "fidelity-memory.svg", "fidelity-time.svg"):
                self.assertEqual((ROOT / "docs" / name).read_text(),
                                 (pathlib.Path(folder) / name).read_text(),
                                 f"docs/{name} is stale: tools/fidelity.sh makes it anew")


if __name__ == "__main__":
    unittest.main()
