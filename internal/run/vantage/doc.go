// Package vantage is the one table of what can be seen of an agent's work, and
// from where.
//
// A [Vantage] is where the harness stands while an agent works: inside it, at the
// gateway that it calls models through, or outside, where only its answers arrive.
// A [Matter] is something about a run, such as its memory writes. [Vantage.Sees]
// says whether a matter can be seen, partly or not at all, and why not.
//
// Checks, extractors, expressions, policies, budgets, bundles, scorecards, gates
// and promotion use names such as memory_writes or policy_violations. [Matters]
// says for every such name which matters decide it; a name that is not in the table
// cannot be seen from anywhere. Whatever decides or shows asks here, so that none of
// them takes what was not seen for what did not happen.
//
// docs/vantage.md is written from this table. The package imports nothing: a
// stranger's verifier reads the same table.
package vantage
