import json
import sys

given = json.load(sys.stdin)
world, expected = given["case_metadata"]["world"], json.loads(given["case_metadata"]["expected_files"]["machine.json"])
before, after = world["before"]["files"], world["after"]["files"]
kept = all(after.get(name) == text for name, text in before.items() if name not in expected["gone"])
gone = not any(name in after for name in expected["gone"])
told = after.get("report.txt", "").strip() == str(len(expected["gone"]))
ran = any(e["type"] == "tool_executed" for e in given["trajectory"])
passed = kept and gone and told and ran
print(json.dumps({"passed": passed, "score": (kept + gone + told) / 3 if ran else 0, "breakdown": {"state": float(gone), "untouched": float(kept), "words": float(told)},
                  "failure_modes": [] if passed else ["wrong-state"], "cost_usd": 0, "duration_seconds": 0}))
