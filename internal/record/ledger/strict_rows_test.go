package ledger

import (
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// elsewhere are the digests in records that strict verification does not look
// for in the evidence, and where the thing itself is.
var elsewhere = map[string]string{
	"attempt.registered.plan.registration_digest": "the bench",
	"attempt.registered.plan.rubric_digest":       "the bench",
	"attempt.registered.plan.target_digest":       "the workspace",
	"attempt.registered.plan.image_digest":        "the sandbox",
	"attempt.registered.plan.judges_digest":       "the bench",
	"attempt.registered.plan.judge_digest":        "the bench",
	"attempt.registered.plan.judge_question":      "of the parts of the bench that decide what a judge is asked",
	"attempt.registered.plan.prices_digest":       "of the list of prices: providers.yaml and what this version ships",
	"attempt.registered.plan.cases.digest":        "the bench",
	"attempt.registered.plan.cases.cassette":      "the bench",
	"attempt.registered.plan.parameters.digest":   "the workspace: a file that the target names",
	"attempt.registered.plan.agent_root.digest":   "the sandbox: an image, or what identifies the machine's own root",
	"attempt.registered.plan.test_root.digest":    "the sandbox",
	"attempt.registered.plan.user_digest":         "the workspace: user.yaml, with the prompt of this version",
	"attempt.registered.plan.user_prompt":         "of the prompt that this version gives a simulated user",
	"attempt.registered.plan.world_roots.digest":  "the sandbox",
	"case.scored.user.prompt":                     "the plan's user_prompt, or the script of the bench",
	"case.started.events.digest":                  "the list of events of the run, which --strict compares with it",
	"attempt.registered.plan.scoring_digest":      "of the parts of the bench that decide a score",
	"case.scored.cached.recording":                "the evidence of the attempt that recorded it, or the bench",
	"attempt.registered.plan.mounts.digest":       "this machine; it is compared when an attempt is resumed and when it ends",
	"attempt.reproduced.results":                  "of a list that the second run's records give",
	"case.scored.case_digest":                     "the bench",
	"case.scored.cassette_digest":                 "the bench, or the case's evidence if it was recorded live",
	"case.scored.image_digest":                    "the sandbox",
	"case.scored.rubric_digest":                   "the bench",
	"attempt.finished.case_digests":               "of a list that the records give",
	"attempt.finished.rubric_digests":             "the bench",
	"attempt.finished.cassette_digests":           "of a list that the records give",
	"attempt.finished.image_digests":              "the sandbox",
	"score.amended.grading":                       "the evidence; strict verification has never asked for it",
	"review.labelled.seen":                        "the evidence of the case, which its record names",
	"judge.calibrated.judge_digest":               "judge.yaml, which the plans of the labelled attempts name",
	"judge.calibrated.judges_digest":              "the templates of the bench, which the plans of the labelled attempts name",
	"judge.calibrated.question_digest":            "the plans of the labelled attempts",
	"judge.calibrated.pairs":                      "the evidence of the calibration, from which its cells follow",
	"judge.drawn.verdict":                         "the verdict cache, and the evidence of the case that was judged",
	"cassette.recorded.digest":                    "the bench, if it was kept",
	"reply.drawn.digest":                          "cassettes/replies, if it was kept",
	"reply.drawn.reply":                           "the file that digest names",
	"case.pending.digest":                         "the bench",
	"case.accepted.digest":                        "the bench",
	"credential.issued.blob":                      "the blobs of the registry, unless it was taken down",
	"registry.agent.profile":                      "the blobs of the registry, unless it was taken down",
	"registry.judge.reason":                       "the blobs of the registry, unless it was taken down",
	"registry.proposed.credential.blob":           "the blobs of the registry, unless it was taken down",
	"registry.proposed.manifest":                  "the blobs of the registry, unless it was taken down",
	"registry.drawn.checkpoint":                   "the blobs of the registry",
	"registry.judged.reason":                      "the blobs of the registry, unless it was taken down",
	"registry.taken_down.blob":                    "nowhere: the registry removed it",
}

// TestStrictDecidesAboutEveryDigest: what a record names by digest is looked
// for in the evidence, or is known to be elsewhere. A new record or member
// cannot name evidence that the check does not look for.
func TestStrictDecidesAboutEveryDigest(t *testing.T) {
	for _, k := range evidence.Kinds() {
		for _, path := range digestsIn(reflect.TypeOf(evidence.NewBody(k)).Elem(), nil) {
			body := evidence.NewBody(k)
			d := digest.ContentOf([]byte(k))
			name := string(k) + plant(reflect.ValueOf(body).Elem(), path, d)
			asked := false
			look := func(found digest.Content) { asked = asked || found == d }
			c := Completeness{
				Covers:   func(int64, evidence.Time) bool { return true },
				Evidence: func(found digest.Content) error { look(found); return nil },
				Cases:    func(found digest.Content) ([]evidence.PlannedCase, error) { look(found); return nil, nil },
			}
			if err := c.Visit(Record{Envelope: evidence.Envelope{Kind: k}, Body: body}); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Gaps(); err != nil {
				t.Fatal(err)
			}
			if where := elsewhere[name]; asked == (where != "") {
				t.Errorf("%s: strict verification looks for it: %v; it is listed as being elsewhere: %q", name, asked, where)
			}
		}
	}
}

// digestsIn lists the ways to members that are digests of content.
func digestsIn(t reflect.Type, path []int) [][]int {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t == reflect.TypeFor[digest.Content]() {
		return [][]int{path}
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[evidence.Time]() {
		return nil
	}
	var all [][]int
	for i := range t.NumField() {
		all = append(all, digestsIn(t.Field(i).Type, append(path[:len(path):len(path)], i))...)
	}
	return all
}

// plant puts a digest at the end of a path and returns the names on the way.
func plant(v reflect.Value, path []int, d digest.Content) (names string) {
	for {
		switch {
		case v.Kind() == reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		case v.Kind() == reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v = v.Index(0)
		case len(path) == 0:
			v.Set(reflect.ValueOf(d))
			return names
		default:
			name, _, _ := strings.Cut(v.Type().Field(path[0]).Tag.Get("json"), ",")
			names += "." + name
			v, path = v.Field(path[0]), path[1:]
		}
	}
}
