"""Results of RAGAS with a metric that needs no model."""
from ragas import EvaluationDataset, evaluate
from ragas.metrics import ExactMatch

rows = [{"user_input": "2+2", "response": "4", "reference": "4"}, {"user_input": "3+3", "response": "7", "reference": "6"}]
result = evaluate(EvaluationDataset.from_list(rows), metrics=[ExactMatch()], show_progress=False)
result.to_pandas().to_csv("out.csv", index=False)
print("exact_match/mean", sum(result["exact_match"]) / len(result["exact_match"]))
