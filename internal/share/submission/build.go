package submission

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"

	"tallystick/internal/read/submittable"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// The files of a package.
const (
	ResultsFile      = "results.jsonl"
	TrajectoriesFile = "trajectories.jsonl"
	MetadataFile     = "metadata.json"
	AuditFile        = "audit-report.json"
	ReadmeFile       = "README.md"
	ManifestFile     = "manifest.json"
	SignatureFile    = "manifest.json.sig"
	RegistrationFile = "registration.json"
	TargetFile       = "target.json"
	CompatFile       = "compat/manifest.md.json"

	evidenceDir = "evidence/"
	bodiesDir   = "bodies/"
	receiptsDir = "receipts/"
)

// A Package is what a submission consists of, but for its receipts, manifest and
// signature.
type Package struct {
	Files    map[string][]byte // by path
	Headline Headline
	Audit    Audited
	Decision submittable.Decision
}

// A Headline is the number that people quote, with what it takes to read it.
type Headline struct {
	PassRate *float64    `json:"pass_rate"` // null on a split without answers
	Passed   int         `json:"passed"`
	N        int         `json:"n"`
	CI95     *[2]float64 `json:"ci95"` // Wilson's interval
	Unscored int         `json:"unscored"`
	// Basis says what the numbers count, and Corrected is what they are as people
	// corrected them; both are there if there are corrections.
	Basis     string             `json:"basis,omitempty"`
	Corrected *CorrectedHeadline `json:"corrected,omitempty"`
	MeanSteps float64            `json:"mean_steps"` // model calls of a task
	EmptyRate float64            `json:"empty_rate"` // tasks without an answer
	Seed      *int64             `json:"seed"`       // null: every task was run, none was drawn
}

// Build derives a package. The audit is the last that is done, on the very bytes
// of the other files.
func Build(a *Source) (*Package, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	b := newBuilder(a)
	if err := b.lines(); err != nil {
		return nil, err
	}
	b.files[RegistrationFile] = a.Registration
	if a.Target != nil {
		b.files[TargetFile] = a.Target
	}
	p := &Package{Files: b.files, Headline: b.headline, Decision: b.decide()}
	var err error
	if p.Audit, err = b.audit(); err != nil {
		return nil, err
	}
	b.files[AuditFile] = p.Audit.Report
	b.files[ReadmeFile] = b.readme(p)
	b.files[CompatFile], err = b.compat(p)
	return p, err
}

// newBuilder begins a package. Whatever is read of the evidence becomes part of it.
func newBuilder(a *Source) *builder {
	b := &builder{files: map[string][]byte{}, evidence: a.Read}
	with := *a
	with.Read = func(d digest.Content) ([]byte, error) {
		data, err := a.Read(d)
		if err == nil {
			b.files[evidenceDir+hex.EncodeToString(d[:])] = data
		}
		return data, err
	}
	b.Source = &with
	return b
}

// lines derives what is audited: results, trajectories and metadata.
func (b *builder) lines() error {
	if err := b.rows(); err != nil {
		return err
	}
	if err := b.programs(); err != nil {
		return err
	}
	return b.metadata()
}

type builder struct {
	*Source
	files    map[string][]byte
	tasks    []task
	answers  []*told // that are submitted, in the order of the plan; nil for a task without a record
	headline Headline
	about    Metadata
	sources  programs
	partial  []string // tasks whose texts were not noted whole

	// Of an audit that reads whole texts: where the evidence has them, by SHA-256.
	// Nil for a package, which has its bodies among its files.
	whole    map[string]digest.Content
	evidence func(digest.Content) ([]byte, error)
}

// rows writes a line for each planned task into the results, also of those that
// have no record, and one for each execution that left a record into the
// trajectories: what was tried and not submitted is looked at, too.
func (b *builder) rows() error {
	var err error
	if b.tasks, err = b.Source.tasks(); err != nil {
		return err
	}
	var results, trajectories bytes.Buffer
	for i := range b.tasks {
		t := &b.tasks[i]
		one, all, err := b.tellTask(t)
		if err != nil {
			return err
		}
		b.answers = append(b.answers, one)
		row := Result{TaskID: t.ID, ToolsUsed: []string{}, Correct: new(bool), Outcome: "not_run", Error: "the attempt has no record of it", Entry: -1}
		if one != nil {
			row = one.Result
			row.Executions = t.executions()
			if err := b.besides(t, one); err != nil {
				return err
			}
			row.Corrections, row.Corrected = one.Corrections, one.Corrected
			if b.Withheld[t.ID] {
				row = one.withheld()
			} else if err := writeExecutions(&trajectories, all); err != nil {
				return err
			}
		}
		if err := writeLine(&results, &row); err != nil {
			return err
		}
	}
	b.files[ResultsFile], b.files[TrajectoriesFile] = results.Bytes(), trajectories.Bytes()
	return nil
}

func writeExecutions(to *bytes.Buffer, all []*told) error {
	for _, t := range all {
		if err := writeLine(to, &t.line); err != nil {
			return err
		}
	}
	return nil
}

func writeLine(to *bytes.Buffer, v any) error {
	line, err := canon.Marshal(v)
	to.Write(append(line, '\n'))
	return err
}

// tellTask tells every execution of a task, and which of them gave the answer that
// is submitted; nil if there is none.
func (b *builder) tellTask(t *task) (submitted *told, all []*told, err error) {
	for _, r := range t.records {
		one, err := b.tell(r)
		if err != nil {
			return nil, nil, err
		}
		if !one.whole {
			b.partial = appendNew(b.partial, t.ID)
		}
		all = append(all, one)
		for _, c := range one.steps.bodies {
			if note, ok := one.steps.notes[c.Digest]; ok && !note.Salted && b.whole != nil {
				b.whole[hex.EncodeToString(note.SHA256[:])] = c.Digest
			}
		}
		if b.keepsBodies() {
			if err := b.keepBodies(one); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(all) == 0 {
		return nil, nil, nil
	}
	submitted = chosen(all)
	submitted.line.Submitted = true
	return submitted, all, nil
}

func (b *builder) keepsBodies() bool { return b.Registered.Plan.Recording == evidence.RecordBodies }

// keepBodies puts the whole texts into the package that the steps have only the
// beginning of, named as the steps name them. A text with secrets is not kept
// anywhere.
func (b *builder) keepBodies(t *told) error {
	for _, c := range t.steps.bodies {
		note, ok := t.steps.notes[c.Digest]
		if !ok || note.Salted {
			continue
		}
		data, err := b.Source.Read(c.Digest)
		if err != nil && c.optional {
			continue
		}
		if err != nil {
			return fmt.Errorf("task %s: the whole of a text: %w", t.Result.TaskID, err)
		}
		if digest.IDOf(data) != note.SHA256 {
			if c.optional {
				continue // it was noted in another spelling
			}
			return bad("task %s: a text has the SHA-256 %s, its note says %s", t.Result.TaskID, digest.IDOf(data), note.SHA256)
		}
		// It is there once, under the name that an auditor asks for.
		delete(b.files, evidenceDir+hex.EncodeToString(c.Digest[:]))
		b.files[bodiesDir+hex.EncodeToString(note.SHA256[:])] = data
	}
	return nil
}

// count makes the headline.
func (b *builder) count() {
	h := &b.headline
	h.N = len(b.tasks)
	steps, empty, scored := 0, 0, 0
	for _, t := range b.answers {
		if t == nil {
			empty++
			continue
		}
		steps += t.Result.Turns
		if t.ModelAnswer == "" {
			empty++
		}
		if t.Correct == nil {
			h.Unscored++
		} else {
			scored++
			if *t.Correct {
				h.Passed++
			}
		}
	}
	h.MeanSteps, h.EmptyRate = float64(steps)/float64(h.N), float64(empty)/float64(h.N)
	h.PassRate, h.CI95 = rateOf(h.Passed, h.N, scored)
	if h.Corrected = b.corrected(); h.Corrected != nil {
		h.Basis = basisRecorded
	}
}

// wilson is the 95 percent score interval of a rate p over n trials (Wilson
// 1927): (p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n), as in scorecard, which
// links too much for a stranger's verifier.
func wilson(p, n float64) (lo, hi float64) {
	const z = 1.959963984540054
	middle, wide := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	scale := 1 + z*z/n
	return max(0, (middle-wide)/scale), min(1, (middle+wide)/scale)
}

func sortedPaths(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
