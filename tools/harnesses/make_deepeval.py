"""A test run of DeepEval with a metric that needs no model."""
import glob
import json

from deepeval import evaluate
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase


class Exact(BaseMetric):
    threshold, async_mode, strict_mode, verbose_mode, include_reason = 0.5, False, False, False, True
    evaluation_model = None

    def measure(self, case, *args, **kwargs):
        self.score = float(case.actual_output == case.expected_output)
        self.success, self.reason = self.score >= self.threshold, "compared"
        return self.score

    async def a_measure(self, case, *args, **kwargs):
        return self.measure(case)

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "Exact"


evaluate([LLMTestCase(input="2+2", actual_output="4", expected_output="4"), LLMTestCase(input="3+3", actual_output="7", expected_output="6")], [Exact()])
scores = json.load(open(glob.glob("out/test_run_*.json")[0]))["metricsScores"][0]["scores"]
print("Exact/mean", sum(scores) / len(scores))
