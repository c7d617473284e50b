"""Writes what a mined class and two attempts at it have shown, for people.

summary.py REPORT REFERENCE NOTHING DIR TASKS RELEASES: the report of "tally bench
mine", the scorecards of the two reference agents as JSON, the folder to write README.md
to, how many tasks are wanted, and the list of packages that releases.py wrote, if there
is one. Status 1 if the acceptance test does not tell the two apart.
"""

import collections
import json
import os
import sys

report, reference, nothing = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:4])
folder, wanted = sys.argv[4], int(sys.argv[5])
releases = json.load(open(sys.argv[6], encoding="utf-8")) if os.path.exists(sys.argv[6]) else []


def conditions(card):
    """The conditions of the acceptance test as rows of a table."""
    return [f"| `{c['metric']}` | {c['operator']} {c['threshold']} | {c.get('value')} | {'met' if c['met'] else '**not met**'} |" for c in card["acceptance"]["criteria"]]


reasons = collections.Counter(c.get("dropped", "").split(": ")[0] for c in report["commits"] if c.get("dropped"))
seconds = sorted(c["seconds"] for c in report["commits"] if c.get("seconds"))
lines = [
    f"# The acceptance test on {report['class']}",
    "",
    "Written by `.ci/conformance.d/mined`; [docs/mine.md](../../docs/mine.md) says what such a class shows and what it does not.",
    "",
    f"**{report['kept']} tasks of {len(report['commits'])} commits of {len(report['repositories'])} repositories; reference solved {reference['solved']} of {reference['total_tasks']}, nothing solved {nothing['solved']}**",
    "",
    f"Checked and graded in a {report['sandbox']} sandbox with {report['toolchain']}. {report['checked']} commits were checked; a check of two runs each way took {seconds[len(seconds) // 2]:.0f} s in the middle and {seconds[-1]:.0f} s at most. The trees of all tasks have {report['tree_bytes'] / 1e6:.1f} MB and are kept in {report['trees_bytes'] / 1e6:.2f} MB.",
    "",
    "| Commits | Became of them |",
    "|---|---|",
    f"| {report['kept']} | kept |",
    *(f"| {n} | {why} |" for why, n in reasons.most_common()),
]
tasks_of = collections.defaultdict(list)
for c in report["commits"]:
    if c.get("case"):
        tasks_of[c["repository"]].append(c["subject"].removeprefix(c["repository"] + " "))
if releases:
    lines += ["", "The repositories were made of source releases of these packages, a commit for each; the tasks are the releases named here. Nothing of them is kept in this repository.", "", "| Package | Releases | SHA-256 of the newest archive | Tasks |", "|---|---|---|---|"]
    for p in releases:
        first, last = p["releases"][0], p["releases"][-1]
        lines.append(f"| {p['package']} | {len(p['releases'])}, {first['version']} to {last['version']} | `{last['sha256'][:16]}…` | {', '.join(tasks_of[p['package']]) or 'none'} |")
else:
    lines += ["", *(f"- {r['name']} up to {r['head'][:12]}: {r['kept']} tasks of {r['commits']} commits" for r in report["repositories"])]
for name, card in (("reference, which makes the recorded change", reference), ("nothing, which does nothing", nothing)):
    met = "met" if card["acceptance"]["met"] else "not met"
    lines += ["", f"## {name}: {met}", "", "| Condition | Wanted | Found | |", "|---|---|---|---|", *conditions(card)]
lines += ["", "`rollback_correctness` is 1 because nothing was rolled back: neither agent did anything that the policy undoes.", ""]
with open(f"{folder}/README.md", "w", encoding="utf-8") as out:
    out.write("\n".join(lines))
ok = report["kept"] >= wanted and (wanted < 100 or reference["acceptance"]["met"]) and reference["solve_rate"] >= 0.6 and nothing["solved"] == 0 and not nothing["acceptance"]["met"]
sys.exit(0 if ok else 1)
