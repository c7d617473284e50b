// Package step is the one schema of trajectories.jsonl, the file that tells what an
// agent did: a line for each execution of a task, and in it a step for each thing
// that the agent was shown or did. What writes such lines (submission packages, the
// logs of other harnesses) and what reads them (the audit) use the names that stand
// here; the tables of docs/formats and the second verifier are held to them.
//
// A step has up to two texts, which are not the same. What was *shown* is what the
// agent or its model read: a prompt, a request, the result of a tool. What was
// *said* is what they wrote: a reply, the arguments of a call.
//
// It reads lines and keeps their meaning; whether they are those of a run, and what
// they show, is for the audit to say.
package step
