package outline

import (
	"cmp"
	"sync"

	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A row says how events of one type stand in an outline: at which place each of its
// members is shown, and which are noise, with the reason. Only noise is left out: a
// member that no row knows stands on the line of its event, and an event of a type that
// has no row is a step of its own. So what is new surfaces, and a test asks for its row.
type row struct {
	// kind is that of the step that an event begins if it is about no step that there is
	// already. The level structure has the kinds of [structural].
	kind string
	// word begins the line of the event, and names change if the line differs.
	word   string
	change trajectory.Change
	// what and detail stand on the first line of the step, bare after the word.
	what, detail, bare string
	// below are the other members, which stand on the line with their names.
	below []string
	// noise are the members that are left out below the level exact, and why.
	noise map[string]string
}

// Why members are noise.
const (
	whichRun = "it says which run it was"
	itsFile  = "the name of the golden file says it"
	tie      = "it is a name within the run, which ties events together, and a step shows them together"
	speed    = "it says how long it took"
	spent    = "it counts what was spent, which a scorecard compares"
	source   = "it says where the reply came from"
	reasons  = "the rule is named, and these are its words"
	rules    = "it is the digest of the rules of the class, which names the tools of its other cases too; what the rules decide is shown"
	folder   = "it is the digest of a folder, whose files are shown"
)

// table has a row for every type of events. docs/formats/trajectory.md has it for people.
var table = sync.OnceValue(func() map[trajectory.Type]row {
	return map[trajectory.Type]row{
		trajectory.RunStartedType: {kind: "run", word: "under", below: []string{"governance"}, noise: map[string]string{
			"attempt": whichRun, "case": itsFile, "class": itsFile, "execution": whichRun, "format": "it is the version of the log",
			"input":  "the first turn has it",
			"policy": rules, "policy_short": rules, "repeat": whichRun, "target": itsFile, "vantage": "it says how much can be seen of the target, which is the file's"}},
		trajectory.RunCompletedType: {kind: end, word: "said", change: trajectory.ChangedAnswer, what: "status", bare: "answer"},
		trajectory.RunFailedType:    {kind: end, word: "failed", what: "name", below: []string{"detail"}},
		trajectory.TurnStartedType:  {kind: user, word: "said", change: trajectory.ChangedArguments, bare: "input", below: []string{"agent", "by"}},
		trajectory.TurnCompletedType: {kind: answer, word: "said", change: trajectory.ChangedAnswer, bare: "answer", noise: map[string]string{
			"scores": "it is what the process that asked for the run says of the answer, which a scorecard compares"}},
		trajectory.ContextCompiledType: {kind: "context", word: "holds", change: trajectory.ChangedContext, below: []string{"admitted", "budget", "compression", "window"}, noise: map[string]string{
			"sections": "it counts the tokens of a prompt, which change with its words",
			"used":     "it counts the tokens of a prompt, which change with its words; more than the budget is shown as over_budget"}},
		trajectory.PlanType: {kind: "plan", word: "said", bare: "text"},
		trajectory.ModelCallStartedType: {kind: "model", word: "asked", what: "model", below: []string{"definitions", "provider", "tools"}, noise: map[string]string{
			"call": tie, "messages": "it counts the parts of a prompt, which is compared apart",
			"prompt":  "the first of each model is compared apart, word by word, and fails nothing; the later ones follow from it and from what was done",
			"files":   "they are images and documents within the prompt",
			"request": "it is the digest of the prompt with all that was sent beside it; definitions of tools are shown"}},
		trajectory.ModelCallCompletedType: {kind: "model", word: "replied", change: trajectory.ChangedOutput, bare: "finish_reason", below: []string{"error"}, noise: map[string]string{
			"call": tie, "cost_microdollars": spent, "latency_ms": speed, "source": source, "tokens_in": spent, "tokens_out": spent, "unpriced": spent,
			"output": "the calls that it asks for and the answers of turns are shown; the level exact has the words between them"}},
		trajectory.ToolProposedType: {kind: call, word: "wants", what: "name", detail: "args", below: []string{"class", "trust"}, noise: map[string]string{"call": tie, "id": tie}},
		trajectory.PolicyDecisionType: {word: decided, change: trajectory.ChangedVerdict, what: "name", bare: "verdict", below: []string{"action", "check", "rule"}, noise: map[string]string{
			"call": tie, "reason": reasons}},
		trajectory.PolicyViolationType: {kind: "violation", word: "violation", change: trajectory.ChangedVerdict, what: "rule", bare: "text", below: []string{"unprevented"}, noise: map[string]string{"call": tie}},
		trajectory.ToolExecutedType: {kind: call, word: "gave", change: trajectory.ChangedResult, what: "name", detail: "args", bare: "result", below: []string{"error", "trust"}, noise: map[string]string{
			"call": tie, "cost_microdollars": spent, "latency_ms": speed, "source": source, "tokens": spent}},
		trajectory.ToolObservedType: {kind: call, word: "seen", change: trajectory.ChangedResult, what: "name", detail: "args", bare: "vantage", below: []string{"error", "result"}, noise: map[string]string{
			"call": tie, "id": tie, "judged": tie}},
		trajectory.ApprovalRequestedType: {word: "asked", change: trajectory.ChangedVerdict, what: "name", below: []string{"action", "rule"}, noise: map[string]string{"call": tie, "reason": reasons}},
		trajectory.ApprovalResolvedType:  {kind: approval, word: "answered", change: trajectory.ChangedVerdict, below: []string{"approved", "by", "note"}, noise: map[string]string{"call": tie}},
		trajectory.MemoryProposedType: {kind: remember, word: "wants", change: trajectory.ChangedMemory, what: "key", bare: "value",
			below: []string{"confidence", "source", "supersedes", "tier"}, noise: map[string]string{"call": tie}},
		trajectory.MemoryWrittenType: {kind: remember, word: "written", change: trajectory.ChangedMemory, what: "key", bare: "value",
			below: []string{"confidence", "source", "supersedes", "tier"}, noise: map[string]string{"call": tie, "entry": tie}},
		trajectory.MemoryRetrievedType: {kind: "recall", word: "given", change: trajectory.ChangedMemory, below: []string{"entries", "query"}},
		trajectory.CheckpointSavedType: {kind: "checkpoint", noise: map[string]string{"checkpoint": tie, "digest": folder}},
		trajectory.RollbackType: {kind: "rollback", word: "undone", below: []string{"identical", "reason", "standing"}, noise: map[string]string{
			"call": tie, "checkpoint": tie, "restored": folder}},
		trajectory.HandoffType: {kind: handoff, word: "passed", what: "to", detail: "input", below: []string{"from"}, noise: map[string]string{"call": tie}},
		trajectory.TransportRequestType: {kind: "request", word: "crossed", what: "path", below: []string{"error", "host", "method", "protocol", "status"}, noise: map[string]string{
			"bytes_in": "it counts what headers and ids take too", "bytes_out": "it counts what headers and ids take too", "latency_ms": speed}},
		trajectory.FileWrittenType:   {kind: wrote, word: "is", what: "path", below: []string{"bytes", "digest", "link", "mode"}},
		trajectory.FileDeletedType:   {kind: wrote, word: "gone", what: "path"},
		trajectory.SecurityEventType: {kind: "security", word: "noticed", what: "name", below: []string{"boundary", "detail", "severity"}},
		trajectory.LimitReachedType:  {kind: limit, word: "reached", what: "limit", below: []string{"max"}},
		trajectory.ErrorType:         {kind: failed, word: "error", what: "name", below: []string{"detail"}, noise: map[string]string{"call": tie, "unpriced": spent}},
		trajectory.TestRunType: {kind: tested, word: "tested", below: []string{"command", "exit", "ignored", "passed"}, noise: map[string]string{
			"latency_ms": speed, "output": "it has the times of tests"}},
		trajectory.UserMovedType: {kind: "user_move", word: "said", change: trajectory.ChangedUser, bare: "say", below: []string{"by", "end", "model", "reached", "tools"}, noise: map[string]string{
			"cost_microdollars": spent, "latency_ms": speed, "request": "it is the digest of what the user was asked, which follows from what was said", "source": source,
			"tokens_in": spent, "tokens_out": spent, "unpriced": spent}},
		trajectory.UserToolCalledType: {kind: "user_call", word: "gave", change: trajectory.ChangedUser, what: "name", detail: "args", bare: "result", below: []string{"by", "error"}, noise: map[string]string{
			"latency_ms": speed, "source": source}},
		trajectory.UserBrokeRuleType: {kind: "user_breach", word: "broke", change: trajectory.ChangedUser, what: "rule", bare: "text", below: []string{"by", "fact"}},
		trajectory.UserEndedType:     {kind: "user_end", word: "ended", change: trajectory.ChangedUser, what: "why", below: []string{"by", "prompt", "state", "turns"}},
		trajectory.WorldStartedType: {kind: "world", word: "started", bare: "tools", below: []string{"command", "deterministic", "files", "image", "seed"}, noise: map[string]string{
			"clock": "it says whose time it was", "isolation": "it is the class of a sandbox", "recorded": source}},
		trajectory.WorldStateType: {kind: "world", word: "is", change: trajectory.ChangedResult, what: "phase", bare: "state", noise: map[string]string{"attempted": "what a sandbox notices differs between its classes"}},
		trajectory.ServiceTrafficType: {kind: "traffic", word: "carried", what: "name", below: []string{"port", "protocol"}, noise: map[string]string{
			"bytes_in": "what is not parsed may differ in every byte", "bytes_out": "what is not parsed may differ in every byte", "connections": "what is not parsed may differ in every connection"}},
	}
})

// rowOf is the row of a type. Without one the type is the kind of its step, which is
// about the subject of the event, and every member is shown.
func rowOf(t trajectory.Type) row {
	if r, known := table()[t]; known {
		return r
	}
	return row{kind: string(t), word: "with"}
}

// actions are the kinds of steps that a policy decides about.
var actions = map[policy.Action]string{policy.Tool: call, policy.MemoryWrite: remember, policy.Handoff: handoff, policy.Approval: approval}

// structural are the kinds that the level structure compares, by what and detail.
var structural = map[string]bool{user: true, call: true, handoff: true}

// isKind reports whether steps may be called so.
func isKind(kind string) bool {
	if kind == offer {
		return true
	}
	for _, k := range actions {
		if k == kind {
			return true
		}
	}
	for _, r := range table() {
		if r.kind == kind {
			return true
		}
	}
	return trajectory.NewPayload(trajectory.Type(kind)) != nil
}

// changeOfLine is what it means if a line that begins with the word differs, in a step of
// the kind. Lines of other kinds stand in it too, such as a violation in a call.
func changeOfLine(kind, word string) trajectory.Change {
	change := trajectory.ChangedFields
	for _, r := range table() {
		if r.word != word || r.kind != kind && r.kind != "" && change != trajectory.ChangedFields {
			continue
		}
		if r.kind == kind || r.kind == "" {
			return cmp.Or(r.change, trajectory.ChangedFields)
		}
		change = cmp.Or(r.change, change)
	}
	return change
}
