"""Every example job plans, and its answer holds together."""

import json
import unittest

from command import EXAMPLES, ROOT, CommandTest, restow, validate


class ExamplesTest(CommandTest):
    def check_report(self, report):
        validate(report, "plan-report")
        counts = report["candidates"]
        self.assertEqual(counts["total"],
                         counts["priced"] + counts["refused"] + counts["bounded"])
        self.assertTrue(report["complete"])
        self.assertGreater(len(report["ranked"]), 0)
        self.assertEqual([c["rank"] for c in report["ranked"]],
                         list(range(1, len(report["ranked"]) + 1)))
        steps = [c["step_s"] for c in report["ranked"]]
        self.assertEqual(steps, sorted(steps))
        for candidate in report["ranked"]:
            self.check_sums(candidate)
            self.assertTrue(candidate["fits"])
        for index in report["pareto"]:
            own = report["ranked"][index]
            better = [c for c in report["ranked"] if c["step_s"] < own["step_s"]
                      and c["peak_bytes"] <= own["peak_bytes"]]
            self.assertEqual(better, [])

    def check_example(self, name):
        job = ROOT / "examples" / name
        report = json.loads(self.succeed("plan", job, "--json").stdout)
        self.check_report(report)
        table = self.succeed("plan", job).stdout
        self.check_width(table)
        best = report["ranked"][0]
        self.assertRegex(table, rf"(?m)^ *1\*? .*\bdp{best['layout']['dp']}\b")
        for heading in ("layout", "recompute", "step", "tokens/s", "MFU", "peak", "margin"):
            self.assertIn(heading, table)
        self.assertIn("searched", table)
        return report

    def test_every_example_has_a_test(self):
        with open(__file__, encoding="utf-8") as source:
            text = source.read()
        for path in EXAMPLES:
            self.assertIn(f'check_example("{path.name}")', text)

    def test_llama3_70b(self):
        report = self.check_example("llama3-70b-64xh100.yaml")
        self.assertIsNotNone(report["current"])
        self.check_sums(report["current"])

    def test_deepseek_v3(self):
        self.check_example("deepseek-v3-1024xh800.yaml")

    def test_qwen3_moe(self):
        self.check_example("qwen3-30b-a3b-64xh100.yaml")

    def test_vision_language(self):
        self.check_example("qwen3-vl-30b-a3b.yaml")

    def test_llama2_7b_with_zero(self):
        self.check_example("llama2-7b-8xa100-zero.yaml")

    def test_hyperparallel_trainer(self):
        self.check_example("hyperparallel-qwen3-30b.yaml")

    def test_own_examples_keep_to_the_job_schema(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("python3-yaml is not installed")
        checked = 0
        for path in EXAMPLES:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
            if "accelerator" in document:
                continue
            validate(document, "job")
            checked += 1
        self.assertGreater(checked, 0)

    def test_answers_do_not_depend_on_threads(self):
        for path in EXAMPLES[:2]:
            reports = []
            for threads in (1, 2, 8):
                report = json.loads(restow("plan", path, "--json", "--threads", threads).stdout)
                del report["elapsed_s"]
                reports.append(json.dumps(report))
            self.assertEqual(reports[0], reports[1])
            self.assertEqual(reports[0], reports[2])


if __name__ == "__main__":
    unittest.main()
