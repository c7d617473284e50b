package evidence

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/records.md, docs/formats/rules/records.json and docs/formats/vectors")

// formats is the folder of the pages, the rules and the vectors.
var formats = filepath.Join("..", "..", "..", "docs", "formats")

// source says what the types of records do not. A new member is in the file of
// rules by itself, as a text that is not empty or a count from 0; a row here
// says more. TestRecordsKeepTheirRules holds all of it to Validate.
func source() *rules.Source {
	outcomes := &rules.Shape{Is: rules.Text, OneOf: []any{"passed", "failed", "skipped", "errored", "unscored", "truncated"}}
	return &rules.Source{
		Types: map[reflect.Type]*rules.Shape{
			reflect.TypeFor[digest.ID]():      {Is: rules.Text, Like: []string{"sha256"}},
			reflect.TypeFor[digest.Content](): {Is: rules.Text, Like: []string{"blake3"}},
			reflect.TypeFor[Time]():           {Is: rules.Text, Like: []string{"time"}},
			reflect.TypeFor[Severity]():       {Is: rules.Text, OneOf: []any{"block", "warn", "info"}},
			reflect.TypeFor[Outcome]():        outcomes,
			reflect.TypeFor[Score]():          {Is: "score"},
		},
		Text:  rules.Shape{Is: rules.Text, Min: rules.P(1)},
		Count: rules.Shape{Is: rules.Count, Min: rules.P(0)},
		Items: rules.Shape{Is: rules.Text},
		Phrases: map[string]string{
			"ledger.opened.origin": "like origin",

			"signers.changed.version":    "from 2",
			"signers.changed.signatures": "from 2",

			"attempt.registered.schema_version":   "one of 1",
			"attempt.registered.origin":           "like origin",
			"attempt.registered.number":           "from 1",
			"attempt.registered.mode":             "one of replay, live",
			"attempt.registered.plan.cases":       "distinct id",
			"attempt.registered.plan.case_count":  "from 1",
			"attempt.registered.plan.repeat":      "from 1",
			"attempt.registered.plan.recording":   "one of heads, bodies",
			"attempt.registered.plan.second_view": "one of judge",

			"attempt.registered.plan.parameters":      "distinct name",
			"attempt.registered.plan.reduce":          "pattern mode|max|all|at_least:[1-9][0-9]{0,8}",
			"attempt.registered.plan.selection.cases": "each not empty",
			"attempt.registered.plan.selection.of":    "from 1",
			"attempt.registered.plan.selection.seed":  "any number",
			"attempt.registered.plan.selection.tags":  "each not empty",

			"attempt.registered.plan.normalisers.from": "one of class, target",
			"attempt.registered.plan.replies.from":     "one of cache, cassette",
			"attempt.registered.plan.replies.on_miss":  "one of fail, live",

			"case.started.execution": "from 1",
			"case.started.repeat":    "from 1",

			"case.scored.agent_scope":     "one of attempt",
			"case.scored.execution":       "from 1",
			"case.scored.harness_version": "may be empty",
			"case.scored.repeat":          "from 1",
			"case.scored.schema_version":  "one of 1",

			"attempt.finished.schema_version": "one of 1",
			"attempt.finished.mean_score":     "0 to 1",
			"attempt.finished.failure_modes":  "each like objective; each 1 to 128",

			"attempt.reproduced.origin": "like origin",

			"score.corrected.origin":     "like origin",
			"score.corrected.repeat":     "from 1",
			"score.corrected.number":     "from 1",
			"score.corrected.was.score":  "0 to 1",
			"score.corrected.now.score":  "0 to 1",
			"score.corrected.reason":     "1 to 2000",
			"score.corrected.signatures": "1 to 2; each not empty",

			"judge.calibrated.source":                  "one of reviews, file",
			"judge.calibrated.categories":              "2 to 101; each 1 to 64; distinct value",
			"judge.calibrated.cells":                   "not empty; distinct people judge",
			"judge.calibrated.cells.n":                 "from 1",
			"attempt.registered.plan.stop_early.rule":  "one of sprt",
			"attempt.registered.plan.stop_early.p0":    "0.01 to 0.99",
			"attempt.registered.plan.stop_early.p1":    "0.01 to 0.99",
			"attempt.registered.plan.stop_early.alpha": "0.001 to 0.4",
			"attempt.registered.plan.stop_early.beta":  "0.001 to 0.4",
			"attempt.registered.plan.stop_early.seed":  "any number",
			"attempt.finished.stopped.decision":        "one of p1, p0, undecided",
			"attempt.finished.stopped.after":           "from 1",

			"review.labelled.origin":   "like origin",
			"review.labelled.repeat":   "from 1",
			"review.labelled.number":   "from 1",
			"review.labelled.score":    "0 to 1",
			"review.labelled.question": "1 to 2000",
			"review.labelled.label":    "1 to 64",
			"review.labelled.note":     "1 to 4096",

			"judge.drawn.attempt": "may be empty",
			"judge.drawn.draw":    "from 1",

			"cassette.recorded.provenance": "one of recorded, edited, authored",

			"case.accepted.signatures": "from 2",

			"audit.disposed.reason": "1 to 4096",

			"anchor.published.size": "from 1",

			"integrity.event.boundary": "pattern TB-[1-8]",

			"promotion.recommendation.emitted.evidence":                "each any number",
			"promotion.recommendation.emitted.requires_human_approval": "is true",
			"promotion.recommendation.emitted.rules":                   "from 1",
			"promotion.recommendation.emitted.window_days":             "from 1",

			"registry.configured.deadline_hours":  "from 1",
			"registry.configured.draw_rule":       "one of 2",
			"registry.configured.witnesses":       "each not empty",
			"registry.judge.agents":               "from 1; each not empty",
			"registry.calibrated.attempt":         "from 1",
			"registry.calibrated.score_ppm":       "-1000000 to 1000000",
			"registry.proposed.thing":             "one of artifact, model, eval-harness, dataset, eval",
			"registry.proposed.credential.status": "one of checked, sent, unchecked, none",
			"registry.drawn.judges":               "from 1; each not empty",
			"registry.drawn.of":                   "from 1",
			"registry.drawn.size":                 "from 1",
			"registry.judged.verdict":             "one of accept, reject, abstain",
			"registry.decided.outcome":            "one of published, rejected, withdrawn, lapsed",

			"score.breakdown":        "at most 256; name like objective; name 1 to 128",
			"score.cost_usd":         "0 to 1e9; like six_decimals",
			"score.duration_seconds": "0 to 1e9",
			"score.failure_modes":    "at most 256; each like objective; each 1 to 128",
			"score.score":            "0 to 1",

			"index.v": "one of 1-draft",

			"entry.body": "any value",
			"entry.kind": "pattern [a-z_](?:[a-z._]{0,62}[a-z_])?",
			"entry.v":    "one of 1-draft",
		},
		Relations: map[string][][]any{
			"attempt.registered.plan":            {{"exactly_one", "cases", "cases_digest"}, {"length", "cases", "case_count"}, {"needs", "selection", "filtered"}, {"absent_when", "stop_early", "filtered", true}, {"needed_when", "recording", "submit_intent", true}, {"needs", "second_view", "judge_digest"}},
			"attempt.registered.plan.stop_early": {{"at_most", "p0", "p1"}, {"differ", "p0", "p1"}},
			"attempt.finished.stopped":           {{"at_most", "passed", "after"}},
			"attempt.registered.plan.selection":  {{"together", "sample", "seed"}},
			"case.scored": {
				{"there_when", "score", "outcome", "passed", "failed"},
				{"true_when", "score.passed", "outcome", "passed"},
				{"needed_when", "reason", "outcome", "skipped", "errored", "unscored", "truncated"},
				{"at_most", "started_at", "finished_at"},
			},
			"case.scored.cached":  {{"at_most", "replies", "calls"}, {"absent_when", "recording", "replies", 0}, {"needs", "attempt", "recording"}},
			"case.scored.policy":  {{"at_most", "rollbacks_verified", "rollbacks"}},
			"attempt.reproduced":  {{"there_when", "divergence", "agrees", false}},
			"registry.configured": {{"at_most", "quorum", "judges"}},
			"registry.decided":    {{"there_when", "manifest_chain", "outcome", "published"}},
			"entry":               {{"document", "body", "kind"}, {"bytes", MaxEntryBytes}},
		},
	}
}

// recordRules are the rules as the types and source have them.
func recordRules(t testing.TB) *rules.File {
	s := source()
	f := &rules.File{
		Rules:     rules.Version,
		What:      "The bodies of ledger entries, by kind. shapes.entry is the entry around them, shapes.index the index of a case's evidence.",
		Documents: map[string]*rules.Shape{},
		Shapes: map[string]*rules.Shape{
			"score": s.Object("score", reflect.TypeFor[Score]()),
			"entry": s.Object("entry", reflect.TypeFor[Entry]()),
			"index": indexRules(s),
		},
	}
	for _, k := range Kinds() {
		f.Documents[string(k)] = s.Object(string(k), reflect.TypeOf(NewBody(k)))
	}
	for _, at := range s.Unused() {
		t.Errorf("source has a row for %s, which no record has", at)
	}
	return f
}

// indexRules are those of the index of a case's evidence, in which paths and
// links may be any text.
func indexRules(s *rules.Source) *rules.Shape {
	index := s.Object("index", reflect.TypeFor[CaseFiles]())
	changed := index.Members["folder"].Members["changed"].Of.Members
	changed["path"].Min = nil
	return index
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
		t.Errorf("%s is not what the types give; run \"go test ./internal/record/evidence -run Records -update\" and read the diff", path)
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

// TestRecordsPage writes docs/formats/rules/records.json from the types, the
// page from the rules, and compares.
func TestRecordsPage(t *testing.T) {
	f := recordRules(t)
	data, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	written(t, "rules/records.json", data)

	var b strings.Builder
	b.WriteString(`# Records

The bodies of ledger entries ([ledger.md](ledger.md)). This page is written by a test from [rules/records.json](rules/records.json), which has every rule by which a record is accepted or refused; [rules/README.md](rules/README.md) says how to read it, and a test holds the program to it. [vectors/records](vectors/README.md) has records that are accepted and records that are refused.

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
	f, err := rules.Load(filepath.Join(formats, "rules", "records.json"))
	if err != nil {
		t.Fatal(err)
	}
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
	for kind, docs := range validRecords(t) {
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
	return out
}
