// Package policy decides what a run may do, and says why.
//
// A [Policy] is data that the bench owns: a governance mode, tool lists,
// budgets and ordered rules. [Compile] turns it into a [Ruleset], and
// [Ruleset.Enforcer] gives the state of one case. The agent proposes a [Call]
// (a tool, a memory write, a hand-off, a request for approval), [Enforcer.Decide]
// answers with a [Decision] that names the rule, and [Enforcer.Record] notes
// what the call cost and returns the violations.
//
// Everything fails closed: a call that cannot be understood, a rule that cannot
// be evaluated and an approval that was given for other arguments are denied.
// No decision depends on a clock, a random number or the order of a Go map, so
// the same calls give the same decisions on every machine.
//
// The package decides and remembers; it does not stop anything itself. The
// runner of the agent must ask before every action, and must not execute what
// [Decision.Permits] does not permit. docs/formats/policy.md has the format.
package policy
