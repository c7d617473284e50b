// Evaluates a function: Eval(name, {data, task, scores}).
//
// The function runs in this process, which serves it to "tally run" on the loopback; the
// attempt is in the ledger like any other. What this process says of itself is not seen
// from outside, and the record says so: vantage "reported", no isolation. With
// sandbox: true the function runs in the sandbox of a command target instead.
// docs/code-first.md describes both, and the protocol. It is the same mechanism as
// python/tallystick/evals.py, and writes the same files.
import { spawn } from "node:child_process";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

const MARK = "# Written by Eval of tallystick, and again by each Eval of this name.";
const HERE = ".tallystick"; // the workspace that is made where there is none
const MOST = 4 << 20; // bytes of an answer, as tally takes it

export class TallyError extends Error {
  constructor(message, name = "", hint = "", code = 1) {
    super(message + (hint ? ` (${hint})` : ""));
    Object.assign(this, { name: name || "TallyError", hint, code });
  }
}

export class EvalFailed extends Error {}

// -- texts that tally takes ---------------------------------------------------

const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const slug = (text, most = 60) => text.replace(/[^A-Za-z0-9._]+/g, "-").slice(0, most).replace(/^[-.]+|[-.]+$/g, "");
const wellFormed = (s) => s.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, (c) => "\\u" + c.charCodeAt(0).toString(16));

/** A value as JSON that every reader understands alike; what has no such form becomes text. */
function plain(v, depth = 0) {
  if (v === null || v === undefined) return null;
  if (typeof v === "boolean") return v;
  if (typeof v === "string") return wellFormed(v);
  if (typeof v === "number") return Number.isFinite(v) && (!Number.isInteger(v) || Math.abs(v) < 2 ** 53) && (v === 0 || (Math.abs(v) > 1e-300 && Math.abs(v) < 1e300)) ? v : String(v);
  if (typeof v !== "object" || depth >= 20) return wellFormed(String(v));
  if (typeof v.toJSON === "function") return plain(v.toJSON(), depth + 1);
  if (v instanceof Map) return plain(Object.fromEntries(v), depth + 1);
  if (Array.isArray(v) || v instanceof Set) return [...v].map((x) => plain(x, depth + 1));
  return Object.fromEntries(Object.entries(v).map(([k, x]) => [wellFormed(k), plain(x, depth + 1)]));
}

function shown(v) {
  const p = plain(v);
  return p === null ? "" : typeof p === "string" ? p : JSON.stringify(p);
}

/** Text in one line, without what a terminal obeys. */
function line(text, most) {
  text = text.slice(0, most + 1).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, " ");
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

/** What was wrong: of an answer that failed, the answer and the one that was wanted. */
function told(c) {
  if (c.outcome !== "failed" || c.output === null || c.output === undefined) return c.reason;
  const said = line(shown(c.output), 30);
  return c.expected === null || c.expected === undefined ? said : `${said}, expected ${shown(c.expected)}`;
}

const number = (v) => (v === null || v === undefined ? "-" : String(Number(v.toPrecision(3))));
const look = (name) => [["rn", "m"], ["vv", "w"], ["0", "o"], ["1", "l"], ["i", "l"], ["_", "-"]].reduce((n, [a, b]) => n.replaceAll(a, b), name.toLowerCase());

// -- data and scorers ---------------------------------------------------------

async function rowsOf(data) {
  if (typeof data === "function") data = await data();
  data = await data;
  if (typeof data === "string") {
    return fs.readFileSync(data, "utf8").replace(/^\uFEFF/, "").split("\n").filter((l) => l.trim()).map((l) => JSON.parse(l));
  }
  const rows = [];
  for await (const row of data) rows.push(row);
  return rows;
}

async function casesOf(data) {
  const cases = [], given = new Map(), taken = new Map();
  for (const [i, row] of (await rowsOf(data)).entries()) {
    if (row === null || typeof row !== "object" || !("input" in row)) throw new TypeError(`row ${i + 1} of the data has no "input"`);
    const c = { id: "", input: row.input, expected: row.expected ?? null, tags: [...(row.tags ?? [])], metadata: { ...(row.metadata ?? {}) } };
    const said = row.id === undefined || row.id === null ? "" : String(row.id);
    const text = shown(c.input);
    const mark = sha256(JSON.stringify([text, plain(c.expected), said])).slice(0, 8);
    if (said) {
      if (given.has(said)) throw new TypeError(`rows ${given.get(said)} and ${i + 1} of the data have the same id ${JSON.stringify(said).slice(0, 80)}; give each its own, or none`);
      given.set(said, i + 1);
      c.id = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/.test(said) ? said : `${slug(said, 80) || "case"}-${mark}`;
    } else {
      c.id = `${slug(text, 32).toLowerCase() || "case"}-${mark}`;
    }
    const n = (taken.get(look(c.id)) ?? 0) + 1;
    taken.set(look(c.id), n);
    if (n > 1) c.id = said ? `${c.id.slice(0, 88)}-${mark}` : `${c.id}-${n}`;
    cases.push(c);
  }
  if (cases.length === 0) throw new TypeError("the data has no rows");
  return cases;
}

function scorersOf(given, threshold) {
  const made = [];
  const named = (name) => {
    let base = (slug(String(name), 50) || "scorer").toLowerCase();
    if (base === "grade") base = "grade-1";
    let n = base;
    for (let i = 2; made.some((m) => m.name === n); i++) n = `${base}-${i}`;
    return n;
  };
  for (let s of given ?? []) {
    if (typeof s === "string") s = { grader: s };
    if (typeof s === "function") {
      const name = named(s.name || "scorer");
      made.push({ name, fn: s, check: { grade: { kind: "reported", scorer: name, threshold } } });
    } else if (s && typeof s === "object" && (s.grader || s.kind)) {
      const { grader, name, kind, ...rest } = s;
      made.push({ name: named(name ?? grader ?? kind), check: { grade: { ...plain(rest), kind: grader ?? kind } } });
    } else {
      throw new TypeError(`a scorer is ${JSON.stringify(s)}, expected a function or the name of a grader, such as "squad"`);
    }
  }
  if (made.length === 0) throw new TypeError('there are no scores; expected functions of {input, output, expected}, or graders such as "squad" or {grader: "contains"}');
  return made;
}

/** What a scorer returned, as it is reported to tally. */
function reported(name, said) {
  const out = { name };
  if (said !== null && typeof said === "object") {
    if (!("score" in said)) return { name, reason: "it returned an object without a score" };
    const reason = said.reason ?? said.metadata?.rationale;
    if (reason) out.reason = wellFormed(String(reason)).slice(0, 500);
    said = said.score;
  }
  if (said === null || said === undefined) return { ...out, skipped: true };
  if (typeof said !== "boolean" && typeof said !== "number") return { name, reason: `it returned a ${typeof said}, expected true, false, a number from 0 to 1, null, or an object with a score` };
  const value = Number(said);
  if (!(value >= 0 && value <= 1)) return { name, reason: `it returned ${value}, expected a number from 0 to 1` };
  return { ...out, score: value };
}

function thrown(e) {
  const at = e instanceof Error && e.stack ? e.stack.split("\n").filter((l) => /^\s+at /.test(l) && !l.includes(import.meta.url) && !l.includes("node:")).slice(0, 3).map((l) => "; " + l.trim()).join("") : "";
  return wellFormed((e instanceof Error ? `${e.name}: ${e.message}` : `threw ${String(e)}`).slice(0, 1200) + at);
}

// -- the process that is asked --------------------------------------------------

async function within(seconds, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${seconds} seconds; it may still be running in this process`)), seconds * 1000);
  });
  try {
    return await Promise.race([(async () => work())(), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function serve(cases, task, scorers, timeout) {
  const byID = new Map(cases.map((c) => [c.id, c])), token = randomBytes(24).toString("base64url"), outputs = new Map();
  const functions = scorers.filter((s) => s.fn);
  const score = async (s, c, output) => {
    try {
      const args = { input: c.input, output, expected: c.expected, metadata: c.metadata };
      return reported(s.name, await within(timeout, () => (s.fn.length >= 2 ? s.fn(c.input, output, c.expected) : s.fn(args))));
    } catch (e) {
      return { name: s.name, reason: thrown(e).slice(0, 1500) };
    }
  };
  const answer = async (asked) => {
    const c = byID.get(asked.case);
    if (!c) return { error: "there is no such case in the data of this Eval" };
    try {
      const output = await within(timeout, () => task(c.input, { id: c.id, metadata: c.metadata, tags: c.tags }));
      const text = shown(output), scores = await Promise.all(functions.map((s) => score(s, c, output)));
      outputs.set(c.id, [...(outputs.get(c.id) ?? []), { output, scores: Object.fromEntries(scores.map((s) => [s.name, s.score ?? null])) }]);
      return { answer: text, ...(scores.length ? { scores } : {}) };
    } catch (e) {
      return { error: thrown(e) };
    }
  };
  const server = http.createServer((request, response) => {
    const want = Buffer.from(`Bearer ${token}`), got = Buffer.from(request.headers.authorization ?? "");
    if (request.method !== "POST" || got.length !== want.length || !timingSafeEqual(got, want)) {
      response.writeHead(403).end();
      return;
    }
    let body = "";
    request.setEncoding("utf8").on("data", (d) => { body += d; }).on("end", async () => {
      let said = JSON.stringify(await answer(JSON.parse(body)));
      if (Buffer.byteLength(said) > MOST) said = JSON.stringify({ error: `the output has ${Buffer.byteLength(said)} bytes as JSON, more than the ${MOST} that tally takes; return a summary or a path` });
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(said) }).end(said);
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  return { url: `http://127.0.0.1:${server.address().port}/`, token, outputs, close: () => { server.close(); server.closeAllConnections?.(); } };
}

// -- the program ------------------------------------------------------------------

function refused(err, status) {
  for (const l of err.trim().split("\n").reverse()) {
    try {
      const said = JSON.parse(l);
      if (said && typeof said.error === "string") return new TallyError(said.error, said.name, said.hint, said.code ?? status);
    } catch {}
  }
  return new TallyError(err.trim() || `tally ended with status ${status}`, "", "", status);
}

/** Run tally. Ctrl-C ends it in order, so that what is finished stays in the ledger. */
function call(args, workspace, accept = [0], more = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.env.TALLY || "tally", [...args, "--json", "--quiet", ...(workspace ? ["--workspace", workspace] : [])], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...more } });
    let out = "", err = "";
    const interrupted = () => child.kill("SIGINT");
    let signalled = false;
    const onSignal = () => { signalled = true; interrupted(); };
    process.once("SIGINT", onSignal);
    child.stdout.setEncoding("utf8").on("data", (d) => { out += d; });
    child.stderr.setEncoding("utf8").on("data", (d) => { err += d; });
    child.on("error", (e) => reject(e.code === "ENOENT" ? new TallyError("the program tally was not found", "NotFound", "put it on the PATH, or name it in the environment variable TALLY", 2) : e));
    child.on("close", (code) => {
      process.removeListener("SIGINT", onSignal);
      if (signalled) {
        console.error(`interrupted; what is finished is in the ledger: tally log --workspace ${workspace}`);
        return realExit(130);
      }
      if (!accept.includes(code) || !out.trim()) return reject(refused(err, code));
      resolve({ said: JSON.parse(out.trim().split("\n").at(-1)), code, refused: code === 0 ? "" : refused(err, code).message });
    });
  });
}

const realExit = process.exit.bind(process);

// -- the files of a workspace -------------------------------------------------------

async function workspaceOf(given) {
  if (!given) {
    for (let at = process.cwd(); ; at = path.dirname(at)) {
      for (const here of [at, path.join(at, HERE)]) if (fs.existsSync(path.join(here, "tally.yaml"))) return here;
      if (path.dirname(at) === at) break;
    }
    given = HERE;
  }
  if (!fs.existsSync(path.join(given, "tally.yaml"))) await call(["init", given], "");
  return given;
}

/** Write a file of ours. One that a person wrote or changed is left alone. */
function write(file, body) {
  const mine = (b) => `${MARK} sha256:${sha256(b)}\n${b}`;
  if (fs.existsSync(file)) {
    const text = fs.readFileSync(file, "utf8"), end = text.indexOf("\n");
    if (mine(text.slice(end + 1)) !== text) throw new Error(`${file} was not written by Eval, or was changed since; give this Eval another name, or the task another target name`);
  }
  replace(file, mine(body));
}

function replace(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file + ".new", text);
  fs.renameSync(file + ".new", file);
}

function writeClass(workspace, name, cases, scorers, gates, timeout) {
  const className = slug(name, 90);
  if (!className) throw new TypeError(`the name ${JSON.stringify(name)} has no letters or digits of ASCII; tally needs one for the folder of the class`);
  const folder = path.join(workspace, "bench", className), registration = path.join(folder, "registration.yaml"), dataset = path.join(folder, "dataset.jsonl");
  const data = cases.map((c) => {
    const l = { id: c.id, input: shown(c.input), checks: scorers.map((s) => ({ name: s.name, ...s.check })) };
    if (!l.input.trim()) l.input = JSON.stringify(plain(c.input));
    if (c.expected !== null) l.expected = plain(c.expected);
    const tags = [...new Set(c.tags.map((t) => slug(String(t), 100)))].filter(Boolean).sort();
    if (tags.length) l.tags = tags;
    if (Object.keys(c.metadata).length) l.metadata = plain(c.metadata);
    return JSON.stringify(l) + "\n";
  }).join("");
  const title = `title: ${JSON.stringify(wellFormed(line(name, 70)))}`;
  if (fs.existsSync(folder) && fs.readdirSync(folder).length) {
    let said = "", digest = "none";
    try {
      said = fs.readFileSync(registration, "utf8");
      digest = sha256(fs.readFileSync(dataset));
    } catch {}
    if (!said.startsWith(MARK) || !said.includes(`# dataset: sha256:${digest}\n`)) throw new Error(`${folder} was not written by Eval, or was changed since; give this Eval another name`);
    if (!said.includes(title + "\n")) throw new Error(`${folder} is of an Eval with another name that has the same letters; give this Eval another name`);
  }
  const lines = [`class: ${className}`, "trust: scratch", title, `breakdown: ${JSON.stringify(scorers.map((s) => s.name))}`, `# dataset: sha256:${sha256(data)}`];
  if (timeout > 100) lines.push(`limits: {wall_clock_seconds: ${Math.min(86400, Math.ceil(3 * timeout))}}`);
  if (gates) lines.push(`gates: ${JSON.stringify(gates).replaceAll('":', '": ')}`);
  write(registration, lines.join("\n") + "\n");
  replace(dataset, data);
  return className;
}

// -- Eval -----------------------------------------------------------------------------

export async function Eval(name, options) {
  const { data, task, scores, threshold = 0.5, gates, maxConcurrency = 10, trials = 1, timeout = 60, sandbox = false, target, workspace, flags = [], quiet = false, setExitCode = true } = options;
  if (process.env.TALLYSTICK_TASK !== undefined) return answerOne(name, task);
  if (typeof task !== "function") throw new TypeError("the task is not a function of an input");
  if (!(threshold > 0 && threshold <= 1) || !(timeout > 0) || !(maxConcurrency >= 1) || !(trials >= 1)) throw new TypeError("expected a threshold above 0 and at most 1, a timeout above 0, and at least one case at once and one trial");
  const cases = await casesOf(data), scorers = scorersOf(scores, threshold), place = await workspaceOf(workspace);
  const label = slug(target ?? (task.name === "task" || !task.name ? "task" : task.name)) || "task";
  const className = writeClass(place, name, cases, scorers, gates, timeout);
  const wanted = ["run", className, "--jobs", String(maxConcurrency), ...(trials > 1 ? ["--repeat", String(trials)] : []), ...flags, "--target", label];
  const file = path.join(place, "targets", label + ".yaml");
  let ran, outputs = new Map();
  if (sandbox) {
    write(file, sandboxed(place, name, cases, scorers));
    ran = await call(wanted, place, [0, 4, 5]);
  } else {
    const functions = scorers.filter((s) => s.fn).map((s) => s.fn);
    const most = Math.min(86400, Math.ceil(2 * timeout) + 5);
    write(file, `version: 1\nkind: http\nhttp: {in_process: true, code: "sha256:${sha256([task, ...functions].map(String).join("\n"))}", timeout_seconds: ${most}}\n`);
    const process_ = await serve(cases, task, scorers, timeout);
    // A task that ends the process would take the other cases with it.
    process.exit = (code) => { throw new Error(`process.exit(${code ?? ""}) was called`); };
    try {
      ran = await call(wanted, place, [0, 4, 5], { TALLY_TASK_URL: process_.url, TALLY_TASK_TOKEN: process_.token });
    } finally {
      process.exit = realExit;
      process_.close();
    }
    outputs = process_.outputs;
  }
  const result = await resultOf(name, ran, place, cases, scorers, outputs);
  if (!quiet) console.log(String(result));
  if (!result.passed && setExitCode) process.exitCode = Math.max(Number(process.exitCode ?? 0), ran.code);
  return result;
}

/** The first of some paths that a target can name: relative to a folder that the workspace lies in, up to the top of the repository. */
function relativeTo(workspace, ...paths) {
  for (const wanted of paths) {
    for (let at = fs.realpathSync(workspace); ; at = path.dirname(at)) {
      const name = path.relative(at, wanted);
      if (name && !name.startsWith("..")) return name.split(path.sep).join("/");
      if (fs.existsSync(path.join(at, ".git")) || path.dirname(at) === at) break;
    }
  }
  throw new TypeError(`${paths.at(-1)} does not lie in the repository of the workspace ${workspace}; with sandbox: true tally must find it there`);
}

/** The settings of a target that runs the program that calls Eval in the sandbox. */
function sandboxed(workspace, name, cases, scorers) {
  const f = scorers.find((s) => s.fn);
  if (f) throw new TypeError(`the scorer ${f.name} is a function of this process, and with sandbox: true the answer is graded by tally: use a grader, such as "squad", or a rubric, or sandbox: false`);
  const started = path.basename(process.argv[1] ?? "");
  const main = fs.realpathSync(started === "cli.js" || started === "tallystick" ? process.argv[3] : process.argv[1] ?? "");
  const modules = [];
  for (let at = path.dirname(main); ; at = path.dirname(at)) {
    if (fs.existsSync(path.join(at, "node_modules", "tallystick"))) modules.push(path.join(at, "node_modules"));
    if (path.dirname(at) === at) break;
  }
  if (modules.length === 0) throw new TypeError("sandbox: true needs tallystick in a node_modules folder beside or above the program");
  return `version: 1\nkind: command\ncommand:\n  command: [node, ${JSON.stringify("/agent/" + path.basename(main))}]\n  input: json\n  source: ${JSON.stringify(relativeTo(workspace, path.dirname(main), main))}\n  node_modules: ${JSON.stringify(relativeTo(workspace, modules[0]))}\n` +
    `  env: {TALLYSTICK_TASK: ${JSON.stringify(name)}, TALLYSTICK_JSON: ${JSON.stringify(textInputs(cases) ? "" : "1")}}\n`;
}

function textInputs(cases) {
  const texts = cases.filter((c) => typeof c.input === "string").length;
  if (texts !== 0 && texts !== cases.length) throw new TypeError("with sandbox: true the inputs are all texts, or none is: the task is given what tally has of them");
  return texts > 0;
}

/** In the sandbox: answer one turn with the task of the Eval that was asked for. */
async function answerOne(name, task) {
  if (name !== process.env.TALLYSTICK_TASK) return undefined;
  let given = "";
  for await (const d of process.stdin.setEncoding("utf8")) given += d;
  const { input } = JSON.parse(given);
  const write = process.stdout.write.bind(process.stdout);
  process.stdout.write = process.stderr.write.bind(process.stderr); // what the task prints is not its answer
  const output = await task(process.env.TALLYSTICK_JSON ? JSON.parse(input) : input, { id: "", metadata: {}, tags: [] });
  await new Promise((done) => write(shown(output), done));
  process.exit(0);
}

const escaped = (s) => s.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

async function resultOf(name, ran, workspace, cases, scorers, outputs) {
  const known = new Map(cases.map((c) => [c.id, c])), run = ran.said;
  const rows = (await call(["show", run.attempt.id], workspace)).said.cases.map((s) => {
    const c = known.get(s.case), had = outputs.get(c.id) ?? [];
    const one = had.length === 1 ? had[0] : { output: undefined, scores: {} };
    return { id: c.id, input: c.input, expected: c.expected, output: one.output, outcome: s.unanswered ? "unanswered" : s.outcome, score: s.score, scores: one.scores, reason: s.reason || (s.failure_modes ?? []).join("; "), tags: c.tags, metadata: c.metadata, repeat: s.repeat };
  });
  const summary = Object.fromEntries(["total", "passed", "failed", "errors", "unscored", "truncated", "skipped", "mean_score"].map((k) => [k, run[k]]));
  summary.scores = Object.fromEntries(scorers.filter((s) => s.fn).map((s) => {
    const got = [...outputs.values()].flat().map((o) => o.scores[s.name]).filter((v) => v !== null && v !== undefined);
    return [s.name, got.length ? got.reduce((a, b) => a + b, 0) / got.length : null];
  }));
  const where = path.resolve(workspace) === process.cwd() ? "" : ` --workspace ${path.relative(process.cwd(), workspace)}`;
  const passed = ran.code === 0, command = `tally show ${run.attempt.id}${where}`;
  summary.unanswered = run.unanswered ?? 0; // of the errors and the unscored: what asks something new
  const asks = () => `not answered, so it has no score: ${summary.unanswered} of ${summary.total} ask something new` + (run.missing ? `: ${JSON.stringify(run.missing.command)} would pay ${run.missing.estimate}` : "");
  const said = () => summary.unanswered ? asks() : [`${summary.passed} of ${summary.total} passed`, ...["failed", "errors", "unscored", "truncated"].filter((k) => summary[k]).map((k) => `${summary[k]} ${k}`),
    ...Object.entries(summary.scores).map(([k, v]) => `${k} ${number(v)}`)].join(", ") + (passed ? "" : "; NOT PASSED");
  return {
    name, attempt: run.attempt.id, passed, cases: rows, summary, run, command,
    raiseForFailures() {
      if (!passed) throw new EvalFailed(`${name}: ${ran.refused || "not passed"}\n${command}`);
      return this;
    },
    toString() {
      const lines = rows.slice(0, 20).map((c) => `  ${[c.id, c.outcome, number(c.score), line(told(c), 60)].join("  ")}`.trimEnd());
      if (rows.length > 20) lines.push(`  and ${rows.length - 20} more`);
      return [`${name}: ${said()}`, ...lines, command].join("\n");
    },
    toHTML() {
      const cell = (v) => `<td>${escaped(line(v, 300))}</td>`;
      const body = rows.slice(0, 100).map((c) => `<tr>${[c.id, c.outcome, number(c.score), shown(c.input), shown(c.output), shown(c.expected), c.reason].map(cell).join("")}</tr>`).join("");
      return `<p><b>${escaped(name)}</b>: ${escaped(said())}</p><table><tbody>${body}</tbody></table><p><code>${escaped(command)}</code></p>`;
    },
  };
}
