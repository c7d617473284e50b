package extract

// A Kind is where a value comes from.
type Kind string

// The kinds of extractors.
const (
	Answer     Kind = "answer"      // the final answer
	TurnAnswer Kind = "turn_answer" // what the agent said at the end of a turn
	Memory     Kind = "memory"      // a key of the memory, at the end or at the end of a turn
	Tools      Kind = "tools"       // the tool calls, in order
	Verdict    Kind = "verdict"     // what the policy said in a turn
	Count      Kind = "count"       // how many events of a type there are
	Tokens     Kind = "tokens"      // of all model and tool calls
	Cost       Kind = "cost"        // of all model and tool calls, in millionths of a dollar
	Turns      Kind = "turns"       // how many turns started
	Status     Kind = "status"      // how the run ended: completed, refused, suspended, failed
	Test       Kind = "test"        // whether the case's test command passed
	File       Kind = "file"        // a file of the working folder
	World      Kind = "world"       // what the case's world says of its state
	CEL        Kind = "cel"         // an expression over the events
)

// extractors has every kind of extractor, in the order of the documentation. A
// new one is a line here and the function that picks its value.
var extractors = []row{
	{kind: Answer, fields: part, pick: (*Extractor).answer},
	{kind: TurnAnswer, needs: "turn", fields: part, pick: (*Extractor).turnAnswer},
	{kind: Memory, needs: "tier key", fields: "turn " + part, turnZero: true, pick: (*Extractor).memory},
	{kind: Tools, fields: "turn event name vantage", pick: (*Extractor).tools},
	{kind: Verdict, needs: "turn", fields: "name call which", pick: sure((*Extractor).verdict)},
	{kind: Count, needs: "event", fields: "turn name verdict vantage", turnZero: true, pick: (*Extractor).count},
	{kind: Tokens, pick: (*Extractor).total},
	{kind: Cost, pick: (*Extractor).total},
	{kind: Turns, pick: sure((*Extractor).turns)},
	{kind: Status, pick: sure((*Extractor).status)},
	{kind: Test, pick: sure((*Extractor).test)},
	{kind: File, needs: "path", fields: part, pick: (*Extractor).file},
	{kind: World, fields: "phase pointer", pick: (*Extractor).world},
	{kind: CEL, needs: "expression", pick: (*Extractor).evaluate},
}

// A row is a kind of extractor.
type row struct {
	kind Kind

	// needs are the fields that a spec of the kind must have, and fields those
	// that it may have, separated by spaces.
	needs, fields string

	turnZero bool // turn may be 0: before the first turn there is what the case gave

	pick func(e *Extractor, s *Source) (Value, error)
}

// part has the fields that take something out of a text.
const part = "pointer pattern"

// sure is for what can be picked from every trajectory.
func sure(pick func(*Extractor, *Source) Value) func(*Extractor, *Source) (Value, error) {
	return func(e *Extractor, s *Source) (Value, error) { return pick(e, s), nil }
}

var rows = func() map[Kind]*row {
	m := make(map[Kind]*row, len(extractors))
	for i := range extractors {
		m[extractors[i].kind] = &extractors[i]
	}
	return m
}()

// Kinds lists the kinds in the order of the documentation.
func Kinds() []Kind {
	kinds := make([]Kind, len(extractors))
	for i := range extractors {
		kinds[i] = extractors[i].kind
	}
	return kinds
}
