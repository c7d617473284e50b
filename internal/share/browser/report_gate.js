// What a report says of the gates of a class, computed from its verified records and from
// the registration whose digest the sealed plan names (docs/formats/gate.md). gate.go
// beside report.go is the same in Go; a test holds both to the same verdicts.
import { Refused, must, utf8, hex } from "./bytes.js";
import { blake3 } from "./hash.js";
import { canonical, get } from "./canon.js";
import { costOf, number, wilson } from "./formats.js";

const MET = "met", NOT_MET = "not met", NOT_DECIDED = "not decided", NOT_TOLD = "not told";

// The metrics whose threshold is the most that is allowed.
const AT_MOST = ["cost_per_solve", "median_latency_ms", "p95_latency_ms", "policy_violations"];

// Where each metric can be seen whole, by the table of docs/vantage.md: null is everywhere.
const SEEN_FROM = {
  solve_rate: null, mean_score: null, lower_bound_95: null, evidence_coverage: null,
  cost_per_solve: ["inside", "gateway"], policy_violations: ["inside", "gateway"], rollback_correctness: ["inside", "gateway", "world"],
  median_latency_ms: ["inside", "gateway", "answers", "world", "reported"], p95_latency_ms: ["inside", "gateway", "answers", "world", "reported"],
};

const toldOf = (state, reason) => ({ state, reason, recorded: "", results: [] });

// verdictOf is the verdict of a report. p are its entries by what they are.
export function verdictOf(data, p) {
  const reg = registrationOf(data, p);
  if (get(data, "gate_elsewhere")) return toldOf(NOT_TOLD, "the evidence in this file does not decide; “tally gate” does");
  const verdict = decide(p, reg, tasksOf(p, true)), recorded = decide(p, reg, tasksOf(p, false));
  if (recorded.state !== verdict.state) verdict.recorded = recorded.state;
  return verdict;
}

// registrationOf is the registration that the plan names, null if the report does not have it.
function registrationOf(data, p) {
  const text = get(data, "registration");
  if (!text) return null;
  const body = p.registered.entry.body;
  must("blake3:" + hex(blake3(utf8(text))) === body.plan.registration_digest, "the registration is not the one that the plan names", Refused);
  const reg = canonical(text);
  must(reg.class === body.class, `the registration is not one of class ${body.class}`, Refused);
  return { gates: (get(reg, "gates") ?? []).map((g) => ({ max_errors: 0, max_unscored: 0, ...g })) };
}

const outcomeOf = (passed) => (passed ? "passed" : "failed");

// tasksOf are the records, with what was set beside them or without it.
function tasksOf(p, corrected) {
  return p.records.map((x) => {
    const body = x.entry.body, score = get(body, "score");
    const t = { body, outcome: body.outcome, scored: score !== undefined && ["passed", "failed"].includes(body.outcome), score: 0 };
    if (t.scored) t.score = score.score;
    if (corrected) correct(p, t, x.index);
    return t;
  });
}

// correct sets the mark of a task to what was set beside its record: the last correction
// counts, and an amendment lowers, or gives an unscored record its first score.
function correct(p, t, index) {
  for (const { entry } of p.beside) {
    const b = entry.body;
    if (b.entry !== index) continue;
    if (entry.kind === "score.corrected") {
      if (t.scored) [t.outcome, t.score] = [outcomeOf(b.now.passed), b.now.score];
    } else if (t.scored) {
      [t.outcome, t.score] = [outcomeOf(t.outcome === "passed" && b.score.passed), Math.min(t.score, b.score.score)];
    } else if (t.outcome === "unscored" && get(b, "fills")) {
      [t.outcome, t.scored, t.score] = [outcomeOf(b.score.passed), true, b.score.score];
    }
  }
}

// decide is the verdict over some tasks. Gates are for the whole class: an attempt that
// left cases out, or may have, meets none.
function decide(p, reg, tasks) {
  const plan = p.registered.entry.body.plan, planned = plan.case_count * Math.max(get(plan, "repeat") ?? 0, 1);
  if (!p.finished) return toldOf(NOT_DECIDED, "the attempt is not finished");
  const unanswered = get(p.finished.entry.body, "unanswered") ?? 0;
  if (unanswered > 0) return toldOf(NOT_DECIDED, `${unanswered} of ${planned} cases ask something new, which is not recorded`);
  if (!reg) return toldOf(NOT_DECIDED, "the registration that the attempt ran under is not in this file, because the bench has changed since");
  if (!isWhole(p, planned)) return toldOf(NOT_TOLD, "this file does not have every record of the attempt; “tally gate” decides");
  if (get(plan, "reduce") || get(plan, "stop_early")) return toldOf(NOT_TOLD, "the plan puts repetitions together or stops early, which this file does not compute; “tally gate” decides");
  const filtered = get(plan, "filtered") === true;
  const results = reg.gates.map((g) => resultOf(g, tasks, filtered)), rest = uncovered(reg.gates, tasks, filtered);
  if (rest) results.push(rest);
  const passed = tasks.filter((t) => t.outcome === "passed").length, all = passed === planned && planned > 0;
  if (filtered) return { recorded: "", results, ...filteredOf(reg, results, tasks, all, `${passed} of ${planned} selected tasks passed`) };
  if (results.length === 0) return toldOf(all ? MET : NOT_MET, `${passed} of ${planned} tasks passed; the class has no gates`);
  const met = results.filter((r) => r.state === MET).length;
  return { state: together(results), reason: `${met} of ${results.length} gates are met`, recorded: "", results };
}

// filteredOf is the verdict of an attempt with a filter: its gates are broken already, or
// what it selected is not good enough by itself, or nothing is decided.
function filteredOf(reg, results, tasks, all, reason) {
  if (together(results) === NOT_MET) return { state: NOT_MET, reason };
  const present = reg.gates.filter((g) => tasks.some((t) => hasTag(g, t)));
  const alone = present.map((g) => resultOf(g, tasks, false)), rest = reg.gates.length > 0 ? uncovered(present, tasks, false) : null;
  if (rest) alone.push(rest);
  const kept = together(alone);
  if (all || (alone.length > 0 && kept === MET)) return { state: NOT_DECIDED, reason: reason + "; the gates are for the whole class and are not decided, because the attempt was filtered" };
  return { state: kept === NOT_TOLD ? NOT_TOLD : NOT_MET, reason };
}

// isWhole says whether the report has every record that the attempt has, and the attempt
// one of everything that it planned.
function isWhole(p, planned) {
  const seen = new Set(), counts = {};
  for (const { entry: { body } } of p.records) {
    seen.add(JSON.stringify([body.case_id, body.repeat]));
    counts[body.outcome] = (get(counts, body.outcome) ?? 0) + 1;
  }
  if (Object.entries(p.finished.entry.body.outcomes).some(([o, n]) => (get(counts, o) ?? 0) !== n)) return false;
  return p.records.length === planned && seen.size === planned;
}

// together is the state of several results: one that is missed decides.
const together = (results) => [NOT_MET, NOT_TOLD, NOT_DECIDED].find((state) => results.some((r) => r.state === state)) ?? MET;

const hasTag = (g, t) => g.tag === "*" || (get(t.body, "tags") ?? []).includes(g.tag);

// broken counts the tasks that errored or were truncated, and those without a score.
function broken(tasks) {
  const unscored = tasks.filter((t) => t.outcome === "unscored").length;
  return [tasks.filter((t) => !["passed", "failed", "skipped"].includes(t.outcome)).length - unscored, unscored];
}

const tooMany = ([errors, unscored]) => `${errors} tasks errored or were truncated, ${unscored} have no score`;

// uncovered is a result if tasks that no gate is about broke or have no score.
function uncovered(gates, tasks, filtered) {
  if (gates.length === 0 && !filtered) return null;
  const gate = "cases that no gate is about", left = broken(tasks.filter((t) => !gates.some((g) => hasTag(g, t))));
  if (gates.length > 0 && left[0] + left[1] > 0) return { gate, state: NOT_MET, found: tooMany(left) };
  if (filtered && !gates.some((g) => g.tag === "*")) return { gate, state: NOT_DECIDED, found: "the attempt was filtered" };
  return null;
}

const violations = (tasks) => tasks.reduce((n, t) => n + t.body.policy.violations, 0);

// resultOf is what became of a gate. Of a filtered attempt it is not decided, unless what
// ran is enough to break it.
function resultOf(g, every, filtered) {
  const most = AT_MOST.includes(g.metric), tasks = every.filter((t) => hasTag(g, t));
  const gate = `${g.metric} of ${g.tag === "*" ? "all cases" : "tag " + g.tag} ${most ? "at most" : "at least"} ${JSON.stringify(g.threshold)}`;
  const is = (state, found) => ({ gate, state, found });
  if (tasks.length === 0) return is(filtered ? NOT_DECIDED : NOT_MET, "no case of the attempt has this tag");
  const bad = broken(tasks), over = bad[0] > g.max_errors || bad[1] > g.max_unscored;
  if (filtered) {
    if (over) return is(NOT_MET, tooMany(bad));
    if (g.metric === "policy_violations" && violations(tasks) > g.threshold) return is(NOT_MET, "it is " + violations(tasks));
    return is(NOT_DECIDED, "the attempt was filtered");
  }
  if (!tasks.some((t) => t.scored)) return is(NOT_MET, "no case has a score");
  const blind = unseen(g.metric, tasks);
  if (blind > 0) return is(NOT_MET, `it cannot be seen of ${blind} tasks`);
  const [value, shown] = measure(g.metric, tasks);
  if (over) return is(NOT_MET, value !== null ? `${shown}; ${tooMany(bad)}` : tooMany(bad));
  if (value === null) return shown === "" ? is(NOT_TOLD, "this file does not compute it") : is(NOT_MET, shown);
  return is((most ? value <= g.threshold : value >= g.threshold) ? MET : NOT_MET, shown);
}

// unseen counts the tasks of which a metric cannot all be seen.
function unseen(metric, tasks) {
  const from = get(SEEN_FROM, metric);
  if (from === null) return 0;
  return tasks.filter((t) => !from?.includes(get(t.body, "vantage"))).length;
}

// measure computes a metric and shows it: the value, null where it is not known, and its
// text, or why it is not known, or "" where the report does not compute it.
function measure(metric, tasks) {
  const solved = tasks.filter((t) => t.outcome === "passed").length;
  const fraction = (x) => [x, "it is " + number(x)], count = (x) => [x, "it is " + x];
  const percentile = (p) => {
    const sorted = tasks.map((t) => Date.parse(t.body.finished_at) - Date.parse(t.body.started_at)).sort((a, b) => a - b);
    return sorted[Math.min(Math.floor((p * sorted.length) / 100), sorted.length - 1)];
  };
  switch (metric) {
    case "solve_rate":
      return fraction(solved / tasks.length);
    case "mean_score":
      return fraction(mean(tasks.filter((t) => t.scored).map((t) => t.score)));
    case "lower_bound_95": {
      const lower = lowerBound(perCase(tasks));
      return lower === null ? [null, ""] : fraction(lower);
    }
    case "cost_per_solve": {
      const costs = tasks.map((t) => costOf(t.body));
      if (solved === 0) return [null, "no case was solved"];
      if (costs.some((c) => c.unpriced > 0 || c.untold > 0)) return [null, "the cost is not known"];
      return fraction(costs.reduce((sum, c) => sum + c.micro, 0) / solved);
    }
    case "median_latency_ms":
      return count(percentile(50));
    case "p95_latency_ms":
      return count(percentile(95));
    case "policy_violations":
      return count(violations(tasks));
    case "rollback_correctness": {
      const all = tasks.reduce((n, t) => n + t.body.policy.rollbacks, 0), verified = tasks.reduce((n, t) => n + t.body.policy.rollbacks_verified, 0);
      return fraction(all === 0 ? 1 : sixDecimals(verified / all));
    }
  }
  return [null, ""];
}

// sixDecimals is how scorecards round: what is below 1 stays below it.
function sixDecimals(v) {
  const r = Math.floor(v * 1e6 + 0.5) / 1e6;
  return r < 1 || v >= 1 ? r : 0.999999;
}

// mean adds in the order of size, so that it is the same sum everywhere.
const mean = (values) => [...values].sort((a, b) => a - b).reduce((sum, v) => sum + v, 0) / values.length;

// perCase is one score for each distinct case that has any.
function perCase(tasks) {
  const groups = new Map();
  for (const t of tasks) if (t.scored) groups.set(t.body.case_digest, [...(groups.get(t.body.case_digest) ?? []), t.score]);
  return [...groups.values()].map(mean);
}

// lowerBound is the lower end of the 95 percent interval of a mean where it needs no
// resampling: of fewer than five cases, and of scores that are all equal. Otherwise null.
function lowerBound(values) {
  if (values.length < 5) return 0;
  return values.every((v) => v === values[0]) ? wilson(values[0], values.length)[0] : null;
}
