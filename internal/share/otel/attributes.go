package otel

// Attributes of our own, in what [Export] writes. Import reads the first three,
// so that what it makes of an export has the same calls, costs and end.
const (
	attrStatus   = "tallystick.run.status"
	attrExecuted = "tallystick.tool.executed" // false: the policy refused the call
	attrCost     = "tallystick.cost_microdollars"

	attrAttempt   = "tallystick.attempt"
	attrCase      = "tallystick.case"
	attrClass     = "tallystick.class"
	attrTarget    = "tallystick.target"
	attrRepeat    = "tallystick.repeat"
	attrExecution = "tallystick.execution"
	attrLevel     = "tallystick.level"
	attrOutcome   = "tallystick.outcome"
	attrHead      = "tallystick.trajectory.head"
	attrCut       = "tallystick.texts_cut" // texts of the span of which only the beginning is known
	attrToolClass = "tallystick.tool.class"
	attrVantage   = "tallystick.tool.vantage" // reported, proposed: of a call that the policy never saw
	attrTrust     = "tallystick.tool.trust"
	attrSource    = "tallystick.source"
	attrTokens    = "tallystick.tool.tokens"
	attrSeq       = "tallystick.seq"
	attrPayload   = "tallystick.payload"
)
