package grade

import (
	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// A Kind is a way to grade a value.
type Kind string

// The kinds of graders.
const (
	Exact      Kind = "exact"       // the same text, number or bool
	Normalised Kind = "normalised"  // the same text but for case, white space and punctuation
	Contains   Kind = "contains"    // every one of some texts is in it
	OneOf      Kind = "one_of"      // it is one of some texts
	Regex      Kind = "regex"       // it matches a pattern
	Number     Kind = "number"      // the same number within a tolerance, in any unit of its kind
	Compare    Kind = "compare"     // >=1, <5, !=x
	JSONSchema Kind = "json_schema" // it has a shape
	JSONEqual  Kind = "json_equal"  // the same JSON but for some paths
	ToolCalls  Kind = "tool_calls"  // a sequence of tool calls
	CEL        Kind = "cel"         // a condition holds at a turn, or at the end of each
	Absent     Kind = "absent"      // there is no value
	GAIA       Kind = "gaia"        // what the scorer of the GAIA leaderboard takes for the same
	Official   Kind = "official"    // what the official code of a public suite takes for right
	SQuAD      Kind = "squad"       // one of some texts but for articles, punctuation and case
	TokenF1    Kind = "token_f1"    // shares enough words
	BLEU       Kind = "bleu"        // shares enough runs of words
	ROUGEL     Kind = "rouge_l"     // shares a long enough sequence of words
	Edit       Kind = "edit"        // takes few enough changes of one letter
	SQL        Kind = "sql"         // a query that gives what the expected one gives
	Embedding  Kind = "embedding"   // its vector points enough the same way
	ByRubric   Kind = "rubric"      // the class's rubric says so
	Program    Kind = "program"     // a program of the suite itself says so
	ByJudge    Kind = "judge"       // a model says so
	Prefer     Kind = "prefer"      // a model prefers it to another answer
	Faithful   Kind = "faithfulness"
	Relevant   Kind = "answer_relevance"
	Precise    Kind = "context_precision"
	Recalled   Kind = "context_recall"
	All        Kind = "all"      // every check passes
	Any        Kind = "any"      // one check passes
	Not        Kind = "not"      // the one check does not match
	Weighted   Kind = "weighted" // the weighted mean of the checks reaches a threshold
	Reported   Kind = "reported" // the agent's own process says so
	Ungraded   Kind = "ungraded" // the answer is unknown: the case runs and has no score
)

// graders has every kind of grader, in the order of the documentation. A new
// one is a line here and a file with its name and its functions. There is no way to register
// one from outside: the set of graders is part of what is attested.
var graders = []kindRow{
	{kind: Exact, members: expectation, compare: exactGrader},
	{kind: Normalised, members: expectation + " keep", compare: normalisedGrader},
	{kind: Contains, members: expectation + " normalised words", compare: containsGrader},
	{kind: OneOf, members: expectation + " normalised", compare: oneOfGrader},
	{kind: Regex, needs: "pattern", members: "match", prepare: (*compiler).regex, grade: (*run).regex},
	{kind: Number, members: expectation + " tolerance relative unit unit_required find", validate: validateNumber, compare: numberGrader, fileIsJSON: true},
	{kind: Compare, needs: "expect", prepare: (*compiler).comparator},
	{kind: JSONSchema, members: "schema schema_file", validate: validateSchema, prepare: (*compiler).schema},
	{kind: JSONEqual, members: expectation + " ignore", compare: jsonEqualGrader, fileIsJSON: true},
	{kind: ToolCalls, members: expectation + " mode args vantage", compare: callsGrader, fileIsJSON: true, looksAt: extract.Tools},
	{kind: CEL, needs: "expression", members: "always at_turn", validate: validateCondition, prepare: (*compiler).condition, looksAt: nothing},
	{kind: Absent, grade: (*run).absent},
	{kind: GAIA, members: expectation, compare: gaiaGrader},
	{kind: Official, needs: "scorer", members: expectation, validate: validateOfficial, compare: officialGrader, fileIsJSON: true},
	{kind: SQuAD, members: expectation, compare: squadGrader},
	{kind: TokenF1, members: expectation + " threshold", validate: validateSimilar, compare: tokenF1.grader},
	{kind: BLEU, members: expectation + " threshold", validate: validateSimilar, compare: bleu.grader},
	{kind: ROUGEL, members: expectation + " threshold", validate: validateSimilar, compare: rougeL.grader},
	{kind: Edit, members: expectation + " threshold", validate: validateSimilar, compare: edits.grader},
	{kind: SQL, members: expectation + " database database_file ordered columns tolerance", validate: validateSQL, prepare: (*compiler).sql, grade: (*run).sql},
	{kind: Embedding, needs: "model", members: expectation + " threshold", validate: validateEmbedding, prepare: (*compiler).embedding, grade: (*run).embedding},
	{kind: ByRubric, prepare: (*compiler).rubric, grade: (*run).rubric},
	{kind: Program, needs: "command", members: "image tree timeout_seconds", validate: validateProgram, prepare: (*compiler).program, grade: (*run).program},
	{kind: ByJudge, members: expectation + judging + " criteria criteria_file template sees files scale choices context_tool", validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: Prefer, members: expectation + judging + " criteria criteria_file template sees files context_tool", validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: Faithful, members: judging + " context_tool", validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: Relevant, members: judging, validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: Precise, members: expectation + judging + " context_tool", validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: Recalled, members: expectation + judging + " context_tool", validate: validateJudge, prepare: (*compiler).judge, grade: (*run).judge},
	{kind: All, needs: "checks", combine: (*combination).all, looksAt: nothing},
	{kind: Any, needs: "checks", combine: (*combination).any, looksAt: nothing},
	{kind: Not, needs: "checks", validate: validateNot, combine: (*combination).not, looksAt: nothing},
	{kind: Weighted, needs: "checks", members: "threshold", weights: true, combine: (*combination).mean, looksAt: nothing},
	{kind: Reported, needs: "scorer", members: "threshold", validate: validateReported, prepare: (*compiler).reported, looksAt: nothing},
	{kind: Ungraded, validate: validateUngraded, grade: (*run).ungraded},
}

// A kindRow is a kind of grader: its rule, and one of compare, prepare and combine.
type kindRow struct {
	kind Kind

	// needs are the members that a rule of the kind must have, and members
	// those that it may have, separated by spaces.
	needs, members string
	validate       func(at place, r *Rule) error // what is more to be said of a rule; may be nil

	// looksAt is what a check without an extractor looks at: the answer, if it
	// is empty. With nothing it takes no extractor.
	looksAt extract.Kind

	// compare makes the grader of a kind that needs an expected value. An
	// error that is placed is about that member of the rule, others about
	// expected.
	compare    func(expected canon.RawMessage, r *Rule) (grader, error)
	fileIsJSON bool // expected_file is read as JSON, not as text

	// prepare makes what the other kinds need.
	prepare func(c *compiler, at place, n *node, r *Rule) error

	// grade is for kinds that grade otherwise than by a grader of the node.
	// It is asked even if no value was found.
	grade func(r *run, n *node, d *Detail, v extract.Value, counts bool) tally

	// combine comes to the result of several checks, which may have weights.
	combine func(c *combination) tally
	weights bool
}

// expectation has the members that say what is expected.
const expectation = "expected expected_pointer expected_file"

// judging has the members of every kind that asks a model.
const judging = " votes threshold panel combine quorum"

// nothing stands for no extractor.
const nothing extract.Kind = "-"

var rows = byKind(graders)

func byKind(list []kindRow) map[Kind]*kindRow {
	m := make(map[Kind]*kindRow, len(list))
	for i := range list {
		m[list[i].kind] = &list[i]
	}
	return m
}

// Kinds lists the kinds in the order of the documentation.
func Kinds() []Kind {
	kinds := make([]Kind, len(graders))
	for i := range graders {
		kinds[i] = graders[i].kind
	}
	return kinds
}
