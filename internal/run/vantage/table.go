package vantage

import "sync"

// A Matter is something about a run that can be seen or not.
type Matter string

// The matters.
const (
	Words      Matter = "words"       // what the user and the agent say, and how the run ended
	ModelCalls Matter = "model calls" // that a model was asked, and what it replied
	Tokens     Matter = "tokens"      // of model and tool calls
	Cost       Matter = "cost"        // of model and tool calls
	ToolCalls  Matter = "tool calls"  // executed, reported and proposed
	Results    Matter = "tool results"
	Memory     Matter = "memory" // what the agent keeps and recalls
	Handoffs   Matter = "handoffs"
	Context    Matter = "context" // what of its context budget the agent used
	Plans      Matter = "plans"
	Files      Matter = "files"  // of the working folder
	Test       Matter = "test"   // the case's test command, on the agent's folder
	Policy     Matter = "policy" // what the policy decided, and what broke it
	Approvals  Matter = "approvals"
	Rollbacks  Matter = "rollbacks"
	Fence      Matter = "fence" // what the agent tried past every call
	Failures   Matter = "failures"
	Retries    Matter = "retries" // of model calls
	Limits     Matter = "limits"  // that a limit of the case was reached
	Traffic    Matter = "traffic" // requests that the agent makes
	Time       Matter = "time"    // logical: the sum of what calls took
	Latency    Matter = "latency" // by the clock of the runner
	User       Matter = "user"    // what a simulated user says, does with tools of its own, and breaks

	// Environment is the state of the case's world, which the harness asks itself.
	Environment Matter = "the world's state"
)

// What cannot be seen, and why.
var (
	seen = View{Sight: Seen}

	elsewhere  = View{Not, "the agent runs elsewhere and shows its answers only"}
	asReported = View{Not, "the agent is a function in the process that asked for the run, which reports its answers only"}
	itsOwn     = View{Not, "the agent keeps this in its own process and tells nobody"}
	notTold    = View{Not, "it is another system's log, which does not say who played the user"}
	nothingRan = View{Not, "it is somebody else's log: no policy of ours was asked"}
	noFolder   = View{Not, "it is somebody else's log: the files are not at hand"}
	asLogged   = View{Partly, "it is somebody else's log, which tells what its writer chose to"}
	unread     = View{Partly, "the agent may reach services of its world whose traffic is not parsed"}
	noFence    = View{Partly, "only what the sandbox and the gateway report shows"}
	theirs     = View{Partly, "only what the harness met itself shows, not what happened inside the agent"}
	ofThoseRun = View{Partly, "only limits on what can be seen are kept"}
	itsRetries = View{Partly, "an agent's own second try looks like another call"}
)

// table is the table: what each vantage sees of each matter, in the order of [All]:
// inside, gateway, answers, imported, world, reported.
//
// At the gateway a tool call is seen if it goes through us or if the agent and its
// model speak of it. What an agent does without a model, a tool of ours or a file is
// not a tool call here, and the sandbox is what bounds it.
var table = sync.OnceValue(func() map[Matter][6]View {
	return map[Matter][6]View{
		Words:      {seen, seen, seen, seen, seen, seen},
		ModelCalls: {seen, seen, elsewhere, asLogged, unread, asReported},
		Tokens:     {seen, seen, elsewhere, asLogged, unread, asReported},
		Cost:       {seen, seen, elsewhere, asLogged, unread, asReported},
		ToolCalls:  {seen, seen, elsewhere, asLogged, unread, asReported},
		Results:    {seen, seen, elsewhere, asLogged, unread, asReported},
		Memory:     {seen, itsOwn, elsewhere, asLogged, itsOwn, asReported},
		Handoffs:   {seen, itsOwn, elsewhere, asLogged, itsOwn, asReported},
		Context:    {seen, itsOwn, elsewhere, asLogged, itsOwn, asReported},
		Plans:      {seen, itsOwn, elsewhere, asLogged, itsOwn, asReported},
		Files:      {seen, seen, elsewhere, noFolder, seen, asReported},
		Test:       {seen, seen, elsewhere, noFolder, seen, asReported},
		Policy:     {seen, seen, elsewhere, nothingRan, unread, asReported},
		Approvals:  {seen, seen, elsewhere, nothingRan, unread, asReported},
		Rollbacks:  {seen, seen, elsewhere, nothingRan, seen, asReported},
		Fence:      {seen, noFence, elsewhere, nothingRan, noFence, asReported},
		Failures:   {seen, seen, theirs, asLogged, seen, theirs},
		Retries:    {seen, itsRetries, elsewhere, asLogged, unread, asReported},
		Limits:     {seen, seen, ofThoseRun, nothingRan, unread, ofThoseRun},
		Traffic:    {seen, seen, elsewhere, asLogged, unread, asReported},
		Time:       {seen, seen, elsewhere, asLogged, unread, asReported},
		Latency:    {seen, seen, seen, asLogged, seen, seen},
		User:       {seen, seen, seen, notTold, seen, seen},

		Environment: {seen, seen, seen, asLogged, seen, seen},
	}
})
