// Package run is the door to making a score: benches, agents, sandboxes, models,
// grading, and one attempt from its plan to its last entry.
//
// In come a verified bench, a target and a plan; out go entries and the evidence
// that they name. It trusts neither agent, model, tool nor rubric: each is fenced,
// bounded and recorded. It reads no threshold, total or decision, so only doors
// after it import it.
package run
