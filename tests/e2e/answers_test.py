"""Each subcommand's text and JSON."""

import csv
import io
import json
import pathlib
import tempfile
import unittest

from command import FITTING, LLAMA, TOO_LARGE, CommandTest, restow, validate


class AnswersTest(CommandTest):
    def json_of(self, *arguments, code=0):
        return json.loads(self.succeed(*arguments, "--json", code=code).stdout)

    def test_price_of_what_fits(self):
        price = self.json_of("price", LLAMA, *FITTING)
        validate(price, "price")
        self.check_sums(price["candidate"])
        self.assertTrue(price["candidate"]["fits"])
        text = self.succeed("price", LLAMA, *FITTING).stdout
        self.check_width(text)
        for term in price["candidate"]["memory"]:
            self.assertIn(term, text)

    def test_price_of_what_does_not_fit_is_given_all_the_same(self):
        price = self.json_of("price", LLAMA, *TOO_LARGE, code=4)
        validate(price, "price")
        self.check_sums(price["candidate"])
        self.assertFalse(price["candidate"]["fits"])
        self.assertIn("above the limit", self.succeed("price", LLAMA, *TOO_LARGE, code=4).stdout)

    def test_explain_names_what_is_over_the_limit_and_exits_0(self):
        explanation = self.json_of("explain", LLAMA, *TOO_LARGE)
        validate(explanation, "explanation")
        self.assertEqual(explanation["verdict"], "refused")
        self.assertGreater(explanation["over"]["bytes"], 0)
        self.assertIn(explanation["over"]["term"], explanation["candidate"]["memory"])
        for nearest in explanation["nearest"]:
            self.assertTrue(nearest["candidate"]["fits"])
        text = self.succeed("explain", LLAMA, *TOO_LARGE).stdout
        self.check_width(text)
        self.assertIn(explanation["over"]["term"], text)

    def test_explain_names_the_rule_where_degrees_or_batch_cannot_be(self):
        for words, rule in ((("tp=8", "cp=4", "pp=4", "recompute=off"), "world"),
                            (("tp=8", "pp=4", "dp=3", "recompute=off"), "world"),
                            (("tp=8", "pp=4", "micro_batch=3", "recompute=off"), "batch")):
            explanation = self.json_of("explain", LLAMA, *words)
            validate(explanation, "explanation")
            self.assertEqual(explanation["verdict"], "refused", words)
            self.assertEqual(explanation["rule"], rule)
            self.assertTrue(explanation["nearest"], words)

    def test_compare_takes_ranks_current_and_quoted_settings(self):
        for a, b in (("1", "current"), ("1", "2"), ("current", " ".join(FITTING))):
            comparison = self.json_of("compare", LLAMA, a, b)
            validate(comparison, "comparison")
            for term, difference in comparison["difference"]["memory"].items():
                self.assertEqual(difference, comparison["b"]["memory"].get(term, 0)
                                 - comparison["a"]["memory"].get(term, 0))
            self.check_width(self.succeed("compare", LLAMA, a, b).stdout)

    def test_compare_refuses_what_is_no_candidate(self):
        self.refuse("compare", LLAMA, "fast", "1", code=2, message="'fast' is not a candidate")
        self.refuse("compare", LLAMA, "0", "1", code=2, message="ranks count from 1")
        self.refuse("compare", LLAMA, "1", code=2, message="B is required")

    def test_export_writes_one_plan_per_stage(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "new" / "plans"
            run = self.succeed("export", LLAMA, "--to", "restow", *FITTING, "-o", out)
            names = [str(out / f"stage-{stage}.json") for stage in range(4)]
            self.assertEqual(run.stdout.split(), names)
            self.assertEqual(sorted(str(path) for path in out.iterdir()), names)
            for stage, name in enumerate(names):
                plan = json.loads(pathlib.Path(name).read_text(encoding="utf-8"))
                validate(plan, "activation-plan")
                self.assertEqual((plan["stage"], plan["stages"]), (stage, 4))

    def test_export_of_the_best_needs_no_candidate(self):
        with tempfile.TemporaryDirectory() as folder:
            run = self.succeed("export", LLAMA, "--to", "restow", "-o", folder,
                               "--modules", "decoder.layers.{layer}")
            text = "".join(pathlib.Path(name).read_text() for name in run.stdout.split())
            self.assertNotIn("model.layers", text)

    def test_export_that_fails_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "plans"
            for arguments, code in ((TOO_LARGE, 4), (["--margin", "70GiB"], 4),
                                    (["--rank", "100000"], 3), ([*FITTING, "--rank", "1"], 2),
                                    ([*FITTING, "--modules", "layers"], 3)):
                run = restow("export", LLAMA, "--to", "restow", *arguments, "-o", out)
                self.assertEqual(run.returncode, code, run.stderr)
                self.assertEqual(run.stdout, "")
                self.assertFalse(out.exists(), arguments)
            self.refuse("export", LLAMA, "--to", "restow", *FITTING, "-o", "/proc/nowhere", code=3,
                        message="/proc/nowhere")

    def test_export_refuses_other_targets(self):
        self.refuse("export", LLAMA, "--to", "megatron", "-o", "x", code=3,
                    message="not available in this version")
        self.refuse("export", LLAMA, "--to", "foo", "-o", "x", code=2, message="foo")
        self.refuse("export", LLAMA, "--to", "restow", code=2, message="--output is required")

    def test_nothing_fits_exits_4_and_shows_the_nearest_misses(self):
        report = self.json_of("plan", LLAMA, "--margin", "70GiB", code=4)
        validate(report, "plan-report")
        self.assertEqual(report["ranked"], [])
        self.assertGreater(len(report["nearest_misses"]), 0)
        for miss in report["nearest_misses"]:
            self.assertGreater(miss["shortfall_bytes"], 0)
        text = self.succeed("plan", LLAMA, "--margin", "70GiB", code=4).stdout
        self.assertIn("Nothing fits", text)
        self.assertIn("GiB", text)
        self.check_width(text)

    def test_top_limits_what_is_ranked(self):
        self.assertEqual(len(self.json_of("plan", LLAMA, "--top", "2")["ranked"]), 2)

    def test_models_and_devices_list_presets_and_show_one(self):
        for subcommand, schema in (("models", "model"), ("devices", "device")):
            presets = self.json_of(subcommand)
            self.assertGreater(len(presets), 0)
            listed = self.succeed(subcommand).stdout
            for preset in presets:
                validate(preset, schema)
                self.assertIn(preset["name"], listed)
            name = presets[0]["name"]
            self.assertIn(name, self.succeed(subcommand, name).stdout)
            self.assertEqual(self.json_of(subcommand, name), presets[0])
            self.check_width(listed)

    def test_schemas_are_listed_and_printed(self):
        names = self.succeed("schema").stdout.split()
        self.assertIn("plan-report", names)
        for name in names:
            schema = json.loads(self.succeed("schema", name).stdout)
            self.assertTrue(schema["title"].startswith(f"restow.{name}/1: "))
        self.refuse("schema", "plan", code=2, message="plan-report")

    def test_csv_has_a_row_per_candidate(self):
        rows = list(csv.DictReader(io.StringIO(self.succeed("plan", LLAMA, "--csv").stdout)))
        report = self.json_of("plan", LLAMA)
        self.assertEqual(len(rows), len(report["ranked"]))
        for row, candidate in zip(rows, report["ranked"]):
            self.assertEqual(float(row["step_s"]), candidate["step_s"])
            self.assertEqual(int(row["peak_bytes"]), candidate["peak_bytes"])
            self.assertEqual(int(row["tp"]), candidate["layout"]["tp"])


if __name__ == "__main__":
    unittest.main()
