package claim

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
)

// Options are what a person says about a run that no file says.
type Options struct {
	RunnerDID string
	Harness   string // the harnessId, if not the one that the files show
	RunID     string // a UUID; "" makes one
	// StartedAt and CompletedAt are moments in RFC 3339 or milliseconds since 1970.
	StartedAt, CompletedAt string
	ModelID                string
	MTEBTaskType           string
	SandboxRunID           string
	Content                Content
	// ContaminationMethod and ContaminationOverlap say how it was looked whether the cases
	// were known before, and what share was; ScaffoldDelta is percentage points, with
	// scaffold less without. They are the word of the signer.
	ContaminationMethod  string
	ContaminationOverlap *float64
	ScaffoldDelta        *float64
	// Task or Run picks one of the runs of a file: by task, or by its number from 1.
	Task string
	Run  int
	// Rand makes UUIDs; nil is the system's.
	Rand io.Reader
}

// A Draft is an unsigned body.
type Draft struct {
	// Body is its canonical JSON. It is not valid while something is missing.
	Body     []byte
	Imported bool
	Hashed   []Hashed
	Missing  []Missing
	// Failed are the checks of the import that failed: the files contradict
	// themselves.
	Failed []results.Check
	// Evidence are the objects for the credential's evidence.
	Evidence []canon.RawMessage
	// LedgerKey verifies the receipt among them, "" if there is none.
	LedgerKey string
}

// A Missing is a member that a body must have and that nothing gave.
type Missing struct {
	Field string `json:"field"`
	Give  string `json:"give"` // what would give it
}

// Refuse is the error of a draft that cannot be signed.
func (d *Draft) Refuse() error {
	if len(d.Missing) > 0 {
		var words, hints []string
		for _, m := range d.Missing {
			words, hints = append(words, m.Field), append(hints, m.Give)
		}
		return refusal.Newf(refusal.Malformed, "the attestation cannot be made: nothing gives %s", strings.Join(words, ", ")).
			WithHint("give %s; missing values are never guessed", strings.Join(hints, ", "))
	}
	_, err := attest.ParseBody(d.Body)
	return err
}

// OfRuns drafts the body of runs that the importer read with Setup. Several runs
// make one body if they are the tasks of one file by one model.
func OfRuns(runs []results.Run, o Options) (*Draft, error) {
	runs, err := choose(runs, o)
	if err != nil {
		return nil, err
	}
	first := runs[0]
	b := &builder{options: o, members: map[string]any{}, extra: map[string]any{}}
	b.draft.Imported = true
	if err := b.harness(first.Harness); err != nil {
		return nil, err
	}
	if err := b.model(first); err != nil {
		return nil, err
	}
	if err := b.moments(string(first.StartedAt), string(setupOf(first).EndedAt)); err != nil {
		return nil, err
	}
	b.sampling(runs)
	b.about(runs)
	if err := b.judges(runs); err != nil {
		return nil, err
	}
	if err := b.content(setupOf(first)); err != nil {
		return nil, err
	}
	if err := b.results(runs); err != nil {
		return nil, err
	}
	return b.finish()
}

// choose picks the runs that one body is about.
func choose(runs []results.Run, o Options) ([]results.Run, error) {
	all := runs
	if o.Run != 0 {
		if o.Run < 1 || o.Run > len(runs) {
			return nil, refusal.Newf(refusal.UnknownName, "run %d: the files have %d", o.Run, len(runs))
		}
		runs = runs[o.Run-1 : o.Run]
	}
	if o.Task != "" {
		runs = slices.DeleteFunc(slices.Clone(runs), func(r results.Run) bool { return string(r.Task) != o.Task })
	}
	if len(runs) == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "no run is of the task %q", o.Task).WithHint("the files have %s", listRuns(all))
	}
	for _, r := range runs[1:] {
		if f := runs[0]; r.Harness != f.Harness || r.Model != f.Model || r.Source != f.Source || !setupOf(r).Tasks {
			return nil, refusal.Newf(refusal.Usage, "the files have %d runs, and an attestation is about one", len(runs)).
				WithHint("pick one with --task or --run: %s", listRuns(runs))
		}
	}
	return runs, nil
}

func listRuns(runs []results.Run) string {
	var names []string
	for i, r := range runs {
		if i == 20 {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%d: %s by %s", i+1, r.Task, r.Model))
	}
	return strings.Join(names, ", ")
}

func setupOf(r results.Run) *results.Setup {
	if r.Setup == nil {
		return &results.Setup{}
	}
	return r.Setup
}

// A builder gathers the members of a body.
type builder struct {
	options Options
	draft   Draft
	members map[string]any
	extra   map[string]any
}

func (b *builder) missing(field, give string) {
	b.draft.Missing = append(b.draft.Missing, Missing{field, give})
}

// harnessIDs are the names of harnesses in the form that a body has them.
var harnessIDs = map[string]string{"lm-evaluation-harness": "lm-eval-harness"}

var notInID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// harnessID spells the name of a harness as a body has it.
func harnessID(name string) string {
	if id := harnessIDs[name]; id != "" {
		return id
	}
	return strings.Trim(notInID().ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// passesOn are formats that carry the results of other harnesses.
var passesOn = []string{"every_eval_ever", "opentelemetry"}

// harness sets the harness. A person may name one only where the file is not
// itself of a harness: a receipt must not carry another harness's name.
func (b *builder) harness(found string) error {
	id := harnessID(found)
	if o := b.options.Harness; o != "" && o != id {
		if o != found && !slices.Contains(passesOn, found) {
			return refusal.Newf(refusal.Usage, "--harness %s: the files are of %s", o, id).WithHint("omit --harness, or give the files of that harness")
		}
		if o != found {
			id = o
		}
	}
	b.members["harnessId"] = id
	if t := b.options.MTEBTaskType; t != "" {
		b.members["mtebTaskType"] = t
	} else if id == "mteb" {
		b.missing("mtebTaskType", "--mteb-task-type")
	}
	return nil
}

// model sets the model. A person may name it only where no file does: what is
// signed must not give the results of one model to another.
func (b *builder) model(r results.Run) error {
	said := slices.DeleteFunc([]string{setupOf(r).ModelURI, string(r.Model)}, func(id string) bool { return id == "" })
	given := b.options.ModelID
	switch {
	case given == "" && len(said) == 0:
		b.missing("modelId", "--model-id")
	case given == "":
		b.members["modelId"] = said[0]
	case len(said) > 0 && !slices.Contains(said, given):
		return refusal.Newf(refusal.Usage, "--model-id %.80q: the files say that %.80q was called", given, said[0]).WithHint("omit --model-id, or give the files of that model")
	default:
		b.members["modelId"] = given
	}
	return nil
}

// moments sets when the run began and ended.
func (b *builder) moments(began, ended string) error {
	if at, ok, err := moment("--started-at", b.options.StartedAt, began); err != nil {
		return err
	} else if ok {
		b.members["submittedAt"] = at
	} else {
		b.missing("submittedAt", "--started-at (the files do not say when the run began, or not in which time zone)")
	}
	at, ok, err := moment("--completed-at", b.options.CompletedAt, ended)
	if ok {
		b.members["completedAt"] = at
	}
	return err
}

// moment is what the files say, else what a flag gives. The two must agree.
func moment(flag, given, said string) (at int64, ok bool, err error) {
	found, isFound := milliseconds(said)
	if given == "" {
		return found, isFound, nil
	}
	if at, ok = milliseconds(given); !ok {
		return 0, false, refusal.Newf(refusal.Usage, "%s %.80q: expected a time in RFC 3339 or milliseconds since 1970", flag, given)
	}
	if isFound && at != found {
		return 0, false, refusal.Newf(refusal.Usage, "%s %.80s: the files say %.80s", flag, given, said).WithHint("omit %s", flag)
	}
	return at, true, nil
}

func orElse(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// milliseconds reads a moment that says its time zone.
func milliseconds(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t.UnixMilli(), err == nil
}

// about keeps in extra where the numbers are from and how they were checked.
func (b *builder) about(runs []results.Run) {
	first := runs[0]
	if v := first.HarnessVersion; v != "" {
		b.extra["harnessVersion"] = string(v)
	}
	var sources []any
	tasks := []any{}
	seen := map[string]bool{}
	counts := map[string]any{}
	for _, r := range runs {
		tasks = append(tasks, string(r.Task))
		for _, f := range append([]results.Source{r.Source}, r.Files...) {
			if f.SHA256 != "" && !seen[f.SHA256] {
				seen[f.SHA256] = true
				sources = append(sources, map[string]any{"file": base(f.Path), "sha256": f.SHA256})
			}
		}
		for _, c := range r.Checks {
			n, _ := counts[string(c.Status)].(float64)
			counts[string(c.Status)] = n + 1
			if c.Status == results.Fail {
				b.draft.Failed = append(b.draft.Failed, c)
			}
		}
		for name, v := range setupOf(r).Extra {
			b.keepExtra(name, string(r.Task), v, len(runs) > 1)
		}
	}
	var failed []any
	for _, c := range b.draft.Failed {
		failed = append(failed, c.Name+": "+c.Detail)
	}
	if len(failed) > 0 {
		counts["failed"] = failed
	}
	b.extra["imported"] = map[string]any{"checks": counts, "sources": sources, "tasks": tasks}
}

// keepExtra keeps a value, by task if there are several.
func (b *builder) keepExtra(name, task string, v any, several bool) {
	if !several {
		b.extra[name] = v
		return
	}
	by, _ := b.extra[name].(map[string]any)
	if by == nil {
		by = map[string]any{}
	}
	by[task] = v
	b.extra[name] = by
}

func base(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

// judges sets judgesDigest, the SHA-256 of the canonical JSON of the list of
// judges, and keeps the list.
func (b *builder) judges(runs []results.Run) error {
	list := map[string]any{}
	for _, r := range runs {
		for _, j := range r.Judges {
			one := map[string]any{"scorer": j.Scorer}
			if j.Model != "" {
				one["model"] = string(j.Model)
			}
			if j.PromptSHA256 != "" {
				one["promptSha256"] = string(j.PromptSHA256)
			}
			list[fmt.Sprint(j.Scorer, "\x00", j.Model, "\x00", j.PromptSHA256)] = one
		}
	}
	var judges []any
	for _, key := range slices.Sorted(maps.Keys(list)) {
		judges = append(judges, list[key])
	}
	return b.setJudges(judges)
}

func (b *builder) setJudges(judges []any) error {
	if len(judges) == 0 {
		return nil
	}
	sum, err := hashOf(judges)
	if err != nil {
		return fmt.Errorf("judges: %w", err)
	}
	b.members["judgesDigest"], b.extra["judges"] = sum, judges
	return nil
}

func hashOf(v any) (string, error) {
	text, err := canon.Marshal(v)
	if err != nil {
		return "", err
	}
	id := digest.IDOf(text)
	return hex.EncodeToString(id[:]), nil
}

// content sets the digests: of what a person gave, else of what the files say.
func (b *builder) content(s *results.Setup) error {
	said := map[string]Hashed{
		"datasetSha":  {Field: "datasetSha", SHA256: s.Dataset, Method: s.DatasetHow},
		"evalCodeSha": {Field: "evalCodeSha", SHA256: s.Code, Method: s.CodeHow},
	}
	return b.setContent(said)
}

func (b *builder) setContent(said map[string]Hashed) error {
	hashing := map[string]any{}
	for _, f := range contentFields {
		h := said[f.field]
		if given := f.of(&b.options.Content); given != "" {
			var err error
			if h, err = hash(f.field, given, ""); err != nil {
				return err
			}
		}
		if h.SHA256 == "" {
			if f.field != "modelVersionSha" {
				b.missing(f.field, f.flag)
			}
			continue
		}
		b.draft.Hashed = append(b.draft.Hashed, h)
		b.members[f.field] = h.SHA256
		hashing[f.field] = h.Method
	}
	if len(hashing) > 0 {
		b.extra["hashing"] = hashing
	}
	return nil
}

// results sets what came out, in the harness's own shape if that is known.
func (b *builder) results(runs []results.Run) error {
	out := map[string]any{}
	for _, r := range runs {
		own := setupOf(r).Results
		if own == nil {
			own = generalResults(r)
		}
		maps.Copy(out, own)
	}
	return b.setResults(out)
}

func (b *builder) setResults(out map[string]any) error {
	sum, err := hashOf(out)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	b.members["results"], b.members["resultsHash"] = out, sum
	return nil
}

// generalResults are the metrics and counts of a run of any harness.
func generalResults(r results.Run) map[string]any {
	metrics := map[string]any{}
	for name, v := range r.Metrics {
		metrics[name] = v
	}
	return map[string]any{
		"task": string(r.Task), "metrics": metrics,
		"counts": map[string]any{"samples": r.Samples, "scored": r.Scored, "unscored": r.Unscored, "errors": r.Errors, "attempts": r.Attempts},
	}
}

// finish adds who and which, and writes the body.
func (b *builder) finish() (*Draft, error) {
	o := b.options
	b.members["schemaVersion"] = attest.SchemaVersion
	if o.RunnerDID == "" {
		b.missing("runnerDid", "--runner-did")
	} else {
		b.members["runnerDid"] = o.RunnerDID
	}
	if b.members["runId"] == nil {
		id, err := o.runID()
		if err != nil {
			return nil, err
		}
		b.members["runId"] = id
	}
	if o.SandboxRunID != "" {
		b.members["sandboxRunId"] = o.SandboxRunID
	}
	if err := b.stated(); err != nil {
		return nil, err
	}
	if len(b.extra) > 0 {
		b.members["extra"] = b.extra
	}
	var err error
	if b.draft.Body, err = canon.Marshal(b.members); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return &b.draft, nil
}

// stated takes in what only a person can say.
func (b *builder) stated() error {
	o := b.options
	if o.ContaminationMethod == "" && o.ContaminationOverlap != nil {
		return refusal.Newf(refusal.Usage, "--contamination-overlap without --contamination-method: a share says nothing without how it was found")
	}
	if o.ContaminationMethod != "" {
		check := map[string]any{"method": o.ContaminationMethod}
		if o.ContaminationOverlap != nil {
			check["overlapRatio"] = *o.ContaminationOverlap
		}
		b.members["contaminationCheck"] = check
	}
	if o.ScaffoldDelta != nil {
		b.members["scaffoldDelta"] = *o.ScaffoldDelta
	}
	return nil
}

func (o Options) runID() (string, error) {
	if o.RunID != "" {
		return o.RunID, nil
	}
	return newUUID(o.Rand)
}

// newUUID makes a random UUID (RFC 9562, version 4).
func newUUID(source io.Reader) (string, error) {
	if source == nil {
		source = rand.Reader
	}
	var u [16]byte
	if _, err := io.ReadFull(source, u[:]); err != nil {
		return "", fmt.Errorf("making a UUID: %w", err)
	}
	return formatUUID(u, 4), nil
}

func formatUUID(u [16]byte, version byte) string {
	u[6], u[8] = u[6]&0x0f|version<<4, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
