package evidence

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/records.md and docs/formats/vectors")

// formats is the folder of the pages, the rules and the vectors.
var formats = filepath.Join("..", "..", "..", "docs", "formats")

// recordRules are the rules in the tree.
func recordRules(t testing.TB) *rules.File {
	t.Helper()
	f, err := rules.Load(filepath.Join(formats, "rules", "records.json"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// meanings say of members what no rule does.
var meanings = map[Kind]string{
	AttemptRegisteredKind: "`plan.cases_digest` is the `blake3:` of the canonical JSON of the list that `plan.cases` would be, which lies in the evidence. `plan.selection` says how cases were selected: any of the patterns in `cases` and any of `tags`, and none of those that begin with `!`; of the `of` cases that are left, the first `limit`, or `sample` of them by `seed`. `plan.reduce` says how repetitions make the outcome of a case ([scorecard.md](scorecard.md)). `plan.parameters` are those of the target's variant; one that names a file has the digest of its bytes. `plan.scoring_digest` names all of the bench but tiers, thresholds and gates ([digests.md](digests.md)). `signature` is the operator's, one armoured SSHSIG in the namespace `tallystick-attempt` over the canonical JSON of the record with an empty `signature`.",
	CaseScoredKind:        "`case_digest` and `cassette_digest` are those of the plan: a record that names others, or a cassette where none was planned, or none where one was, does not count ([scorecard.md](scorecard.md)), and a strict verification names it. The first of `evidence` is the [index](#index).",
	AttemptFinishedKind:   "A *set of digests* is the list of the distinct digests as texts, in the order of their bytes. `case_digests` is the `blake3:` of the canonical JSON of the set of the `case_digest` of every planned case, as its record names it, or the plan where it has no record; `cassette_digests` likewise of the cassettes, of the cases that have one. `rubric_digests` and `image_digests` are the sets of what the records name. `events` is the `blake3:` of the file of boundary events, a piece of the evidence with one integrity.event on each line. `mean_score` is over the records with a score, and absent without any; `failure_modes` are sorted.",
}

// written compares a generated file with the one in the tree, or writes it.
func written(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join(formats, filepath.FromSlash(name))
	if *update {
		if err := writeFile(path, want); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the rules give; run \"go test ./internal/record/evidence -run Records -update\" and read the diff", path)
	}
}

func writeFile(path string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

// TestRecordsVectors writes docs/formats/vectors/records and compares.
func TestRecordsVectors(t *testing.T) {
	f := recordRules(t)
	var vectors []rules.Vector
	for _, kind := range Kinds() {
		for i, doc := range validRecords(t)[kind] {
			name := string(kind)
			if i > 0 {
				name = fmt.Sprintf("%s-%d", kind, i+1)
			}
			vectors = append(vectors, rules.Accepted(string(kind), name, doc))
			if i == 0 {
				vectors = append(vectors, f.Refused(string(kind), name, doc, 7)...)
			}
		}
	}
	entry := AppendEntry(nil, mustMarshal(t, examples()[CaseStartedKind]), CaseStartedKind, true, testTime)
	vectors = append(append(vectors, rules.Accepted("entry", "entry", entry)), f.Refused("entry", "entry", entry, 12)...)
	vectors = append(append(vectors, rules.Accepted("index", "index", validIndex(t))), f.Refused("index", "index", validIndex(t), 6)...)
	for name, spelling := range map[string]string{
		"white-space": `{"class": "c","tier":"gold"}`, "another-order": `{"tier":"gold","class":"c"}`,
		"a-name-twice": `{"class":"c","class":"d","tier":"gold"}`, "an-escape": `{"class":"c","tier":"\u0067old"}`,
	} {
		vectors = append(vectors, rules.Vector{Name: "promotion.apply.blocked-" + name + ".json", As: "promotion.apply.blocked",
			Reason: "it is not canonical JSON", Data: []byte(spelling + "\n")})
	}
	for _, v := range vectors {
		if err := readVector(v); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	compareVectors(t, "records", "Records, by kind, and ledger entries.", vectors)
}

func readVector(v rules.Vector) error {
	data := bytes.TrimSuffix(v.Data, []byte("\n"))
	if v.As == "entry" {
		_, _, err := DecodeEntry(data)
		return err
	}
	if v.As == "index" {
		return readIndex(data)
	}
	_, err := DecodeBody(Kind(v.As), data)
	return err
}

func compareVectors(t *testing.T, folder, what string, vectors []rules.Vector) {
	t.Helper()
	files, err := rules.Files(rules.Index{What: what}, vectors)
	if err != nil {
		t.Fatal(err)
	}
	write := writeFile
	if !*update {
		write = nil
	}
	for _, wrong := range rules.Compare(filepath.Join(formats, "vectors", folder), files, write) {
		t.Error(wrong)
	}
}

// TestRecordsPage writes the page from the rules, and compares.
func TestRecordsPage(t *testing.T) {
	f := recordRules(t)
	data, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	written(t, "rules/records.json", data) // in its one layout

	var b strings.Builder
	b.WriteString(`# Records

The bodies of ledger entries ([ledger.md](ledger.md)). This page is written by a test from [rules/records.json](rules/records.json), which has every rule by which a record is accepted or refused; [rules/README.md](rules/README.md) says how to read it, and the program's checks are written from it too. [vectors/records](vectors/README.md) has records that are accepted and records that are refused.

A record is [canonical JSON](canonical-json.md), at most 63 arrays and objects inside each other, with every required member, empty lists and objects included, and no member that is not listed. An optional member is left out where there is nothing to say: where it is there, it is neither false nor an empty text, list or object. A number or any JSON value that is optional may be 0 or null. Members of an object inside a list or object are listed with the path to it. *count* is a whole number that a double holds exactly; *bytes* are those of UTF-8. A score has the rules [below](#score).
`)
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "\n## %s\n\n%s", k, f.Table(f.Documents[string(k)]))
		if meaning, ok := meanings[k]; ok {
			fmt.Fprintf(&b, "\n%s\n", meaning)
		}
	}
	fmt.Fprintf(&b, "\n## score\n\n%s", f.Table(f.Shapes["score"]))
	fmt.Fprintf(&b, "\nNo score may claim one of the words %s. The words of a name end at everything that is not a letter, before a capital after a small letter, and before the last of several capitals that a small letter follows; capitals and what joins the words do not matter.\n",
		"`"+strings.Join(bannedWords, "`, `")+"`")
	fmt.Fprintf(&b, "\nA rubric's answer is held to one rule more when it is new: `passed` with the score 0 and not passed with the score 1 are refused ([rubric.md](rubric.md)). Records that were sealed before keep what they have.\n")
	fmt.Fprintf(&b, "\n## entry\n\nThe envelope, as in [ledger.md](ledger.md).\n\n%s", f.Table(f.Shapes["entry"]))
	fmt.Fprintf(&b, "\n## index\n\nThe index of a case's evidence, as in [evidence.md](evidence.md).\n\n%s", f.Table(f.Shapes["index"]))
	written(t, "records.md", []byte(b.String()))
}

// TestRecordsKeepTheirRules changes records of every kind in thousands of ways:
// the file of rules and the program must think the same of each.
func TestRecordsKeepTheirRules(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of documents in one goroutine: nothing for the race detector")
	}
	f := recordRules(t)
	tried, accepted := 0, 0
	try := func(name string, doc []byte, read func([]byte) error) {
		if err := f.Check(name, doc); err != nil {
			t.Fatalf("%s: the rules refuse a valid record: %v\n%s", name, err, doc)
		}
		for _, m := range rules.Mutations(doc, 300) {
			data, err := canon.Canonicalize(m.Data)
			if err != nil {
				continue
			}
			ours, theirs := read(data), f.Check(name, data)
			tried++
			if ours == nil {
				accepted++
			}
			if (ours == nil) != (theirs == nil) {
				t.Errorf("%s: %s: the program says %v, the rules say %v\n%.300s", name, m.What, ours, theirs, data)
			}
		}
	}
	valid := validRecords(t)
	documents := map[string][][]byte{}
	for kind, docs := range valid {
		documents[string(kind)] = docs
	}
	if unseen := f.Unseen(documents); len(unseen) > 0 {
		t.Errorf("no record here has %s, so nothing is changed in them", unseen)
	}
	for kind, docs := range valid {
		for _, doc := range docs {
			try(string(kind), doc, func(data []byte) error {
				_, err := DecodeBody(kind, data)
				return err
			})
		}
	}
	for _, entry := range [][]byte{
		AppendEntry(nil, mustMarshal(t, examples()[CaseStartedKind]), CaseStartedKind, true, testTime),
		AppendEntry(nil, mustMarshal(t, examples()[NoteKind]), NoteKind, false, testTime),
	} {
		try("entry", entry, func(data []byte) error {
			_, _, err := DecodeEntry(data)
			return err
		})
	}
	try("index", validIndex(t), readIndex)
	t.Logf("%d records tried, %d accepted", tried, accepted)
	if tried < 10_000 || accepted < 1_000 {
		t.Errorf("%d records tried, %d accepted: too few to show anything", tried, accepted)
	}
}

// fullRecords have the members that the examples do not.
func fullRecords() []Body {
	content, id := digest.ContentOf([]byte("x")), digest.IDOf([]byte("x"))
	paid := &Paid{Calls: 2, CostMicroUSD: 3, Journal: id, Refused: 1, Unknown: 1, UnknownMicroUSD: 1}
	registered := *examples()[AttemptRegisteredKind].(*AttemptRegistered)
	registered.Journal, registered.JudgeCalibrations = true, ptr(int64(0))
	p := &registered.Plan
	p.JudgeDigest, p.JudgesDigest, p.JudgeQuestion, p.Sources, p.Policy = &content, &content, &content, &content, &id
	p.Floor = &Floor{NullFirst, 50, 13}
	p.Filtered, p.StopEarly = false, &StopEarly{StopSPRT, 0.6, 0.8, 0.05, 0.1, 7}
	p.Retries, p.SubmitIntent, p.Recording, p.SecondView = "r", true, RecordHeads, ViewedByJudge
	p.Mounts = []PlannedMount{{Digest: &content, Held: HeldCompared, Inside: "/data"}, {Inside: "/more"}}
	p.AgentRoot, p.TestRoot = &Root{Kind: ImageRoot, Digest: &content}, &Root{Kind: HostRoot, Digest: &content}
	p.Normalisers = []PlannedNormaliser{{FromClass, NormaliseIDs}, {FromTarget, NormaliseDates}}
	p.Replies = &PlannedReplies{FromCache, OnMissFail}
	selected := registered
	selected.Plan.StopEarly, selected.Plan.Filtered, selected.Plan.Selection = nil, true, &Selection{Cases: []string{"a"}, Limit: 1, Of: 2}
	worlds := registered
	worlds.Plan.WorldRoots = []Root{{Kind: ImageRoot, Digest: &content}, {Kind: HostRoot, Digest: &content}}
	scored := *examples()[CaseScoredKind].(*CaseScored)
	scored.AgentScope, scored.Tags, scored.Resumed, scored.Paid = ScopeAttempt, []string{"easy"}, 1, paid
	scored.Cached = &Cached{Attempt: "a", Calls: 2, CostMicroUSD: 1, Recording: &content, Replies: 1}
	scored.Reused = &Reused{From: []ReusedFrom{{Class: "c", Replies: 2, Target: "t"}}, Replies: 2, Unlisted: 1}
	scored.Normalised, scored.ToolCalls, scored.Worker = &NormalisedCount{1, 1}, &ToolCallCount{1, 1, 1}, &Worker{"1", "k"}
	scored.Preload = &Preload{Digest: "00", Milliseconds: 1, Modules: 2, Rehearsed: 1, Stderr: "s", Unrehearsed: "u"}
	finished := *examples()[AttemptFinishedKind].(*AttemptFinished)
	finished.Events, finished.Paid, finished.Stopped = &content, paid, &Stopped{Decision: "p1", After: 2, Passed: 1}
	started := *examples()[CaseStartedKind].(*CaseStarted)
	started.Worker = "k"
	amended := *examples()[ScoreAmendedKind].(*ScoreAmended)
	amended.Grading, amended.Fills = &content, true
	calibrated := *examples()[JudgeCalibratedKind].(*JudgeCalibrated)
	calibrated.Question = &content
	return []Body{&registered, &selected, &scored, &finished, &started, &amended, &calibrated, &worlds}
}

// validIndex is an index with every member.
func validIndex(t testing.TB) []byte {
	d := digest.ContentOf([]byte("x"))
	return mustMarshal(t, &CaseFiles{Answer: &d, Contents: []digest.Content{d}, Diff: &d, Grading: &d, Plan: &d, Recording: &d, TestLog: &d, Version: format.Version,
		Folder:     &FolderFiles{Start: d, Changed: []ChangedFile{{Digest: &d, Path: "a"}, {Link: "a", Path: "b"}, {Folder: true, Mode: "0700", Path: "c"}}},
		Rubric:     &RubricFiles{Input: d, Output: d, Stderr: &d},
		Trajectory: TrajectoryFile{Digest: d, Head: digest.IDOf([]byte("x"))},
		Embeddings: []EmbeddingFiles{{Reply: d, Request: d}},
		Verdicts:   []VerdictFiles{{Document: d, Pieces: []digest.Content{d}}}})
}

func readIndex(data []byte) error {
	var files CaseFiles
	if err := canon.UnmarshalCanonical(data, &files); err != nil {
		return err
	}
	return files.Validate()
}

// validRecords has for each kind the record with every optional member and the
// one without any, and what else is of another shape.
func validRecords(t testing.TB) map[Kind][][]byte {
	out := map[Kind][][]byte{}
	for kind, body := range examples() {
		out[kind] = append(out[kind], mustMarshal(t, body))
	}
	scored := examples()[CaseScoredKind].(*CaseScored)
	failed := *scored
	failed.Outcome, failed.Score = Errored, nil
	bare := failed
	bare.RubricDigest, bare.CassetteDigest, bare.ImageDigest, bare.Tags, bare.Provenance = nil, nil, nil, nil, ""
	out[CaseScoredKind] = append(out[CaseScoredKind], mustMarshal(t, &failed), mustMarshal(t, &bare))
	long := *examples()[AttemptRegisteredKind].(*AttemptRegistered)
	content := digest.ContentOf(nil)
	long.Plan.Cases, long.Plan.CasesDigest = nil, &content
	two := *examples()[AttemptRegisteredKind].(*AttemptRegistered)
	two.Plan.Cases, two.Plan.CaseCount = append(two.Plan.Cases, PlannedCase{ID: "b", Digest: content}), 2
	variant, seed := *examples()[AttemptRegisteredKind].(*AttemptRegistered), 1
	variant.Plan.Selection = &Selection{Cases: []string{"a*", "!b"}, Tags: []string{"easy"}, Sample: 1, Seed: &seed, Of: 2}
	variant.Plan.Reduce, variant.Plan.Repeat, variant.Plan.ScoringDigest = "at_least:2", 3, content
	variant.Plan.Parameters = []PlannedParameter{{Name: "model", Value: "m"}, {Name: "prompt_file", Value: "prompts/a.md", Digest: &content}}
	out[AttemptRegisteredKind] = append(out[AttemptRegisteredKind], mustMarshal(t, &long), mustMarshal(t, &two), mustMarshal(t, &variant))
	agrees := *examples()[AttemptReproducedKind].(*AttemptReproduced)
	agrees.Agrees, agrees.Divergence = true, ""
	out[AttemptReproducedKind] = append(out[AttemptReproducedKind], mustMarshal(t, &agrees))
	for _, body := range fullRecords() {
		out[body.Kind()] = append(out[body.Kind()], mustMarshal(t, body))
	}
	// After the others: vectors are added to, and their numbers stay.
	asked, open := failed, *examples()[AttemptFinishedKind].(*AttemptFinished)
	asked.Unanswered, open.Unanswered, open.MeanScore = true, 1, nil
	out[CaseScoredKind] = append(out[CaseScoredKind], mustMarshal(t, &asked))
	out[AttemptFinishedKind] = append(out[AttemptFinishedKind], mustMarshal(t, &open))
	priced := *examples()[AttemptRegisteredKind].(*AttemptRegistered)
	priced.Plan.PricesDigest = &content
	out[AttemptRegisteredKind] = append(out[AttemptRegisteredKind], mustMarshal(t, &priced))
	withUser, talked := *examples()[AttemptRegisteredKind].(*AttemptRegistered), *scored
	withUser.Plan.UserDigest, withUser.Plan.UserPrompt = &content, &content
	talked.User = &User{By: "model", CostMicroUSD: 7, Ended: "reached", Model: "u", Moves: 3, Prompt: &content, Tokens: 9, ToolCalls: 1, Turns: 2, Unpriced: 1}
	out[AttemptRegisteredKind] = append(out[AttemptRegisteredKind], mustMarshal(t, &withUser))
	out[CaseScoredKind] = append(out[CaseScoredKind], mustMarshal(t, &talked))
	return out
}
