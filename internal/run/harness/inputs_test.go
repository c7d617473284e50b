package harness

import (
	"reflect"
	"slices"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/scenario"
)

// onlyGraded are the members that decide no step of an agent. What is not listed here
// has a case driven again when it changes, a member that comes tomorrow included.
var onlyGraded = map[reflect.Type][]string{
	reflect.TypeFor[bench.Registration](): {"Title", "Thresholds", "MinimumCases", "Gates", "FailureModes", "Breakdown", "Origins", "RunnerKeys", "PromotionWindowDays",
		"ModelEndpoints", "Review", "StopEarly", "Floor", "JudgeDigest", "JudgedScoresCount"},
	// The digest of a case is of all of it, so what is left out here still counts for
	// grading. Files, tests and the cassette count by their own digests.
	reflect.TypeFor[scenario.Task](): {"Digest", "Tags", "HeldOut", "Provenance", "Expected", "ExpectedFiles", "Grader", "Grading", "Metadata", "Rubric"},
}

// TestWhatIsNotNamedAsGradingDrives sets one member after the other and looks whether it
// is taken out.
func TestWhatIsNotNamedAsGradingDrives(t *testing.T) {
	for of, graded := range onlyGraded {
		for i := range of.NumField() {
			f := of.Field(i)
			if !f.IsExported() {
				continue
			}
			v := reflect.New(of).Elem()
			fill(v.Field(i))
			switch of {
			case reflect.TypeFor[bench.Registration]():
				left := drivenBy(v.Interface().(bench.Registration))
				v = reflect.ValueOf(left)
			default:
				left := v.Interface().(scenario.Task)
				withoutGrading(&left)
				v = reflect.ValueOf(left)
			}
			if drives := !v.Field(i).IsZero(); drives == slices.Contains(graded, f.Name) {
				t.Errorf("%s.%s: drives %v", of, f.Name, drives)
			}
		}
	}
}

// fill gives a member a value that is not its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Array:
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
				return
			}
		}
	}
}

// TestFilesOfACaseDrive: whatever of them changes.
func TestFilesOfACaseDrive(t *testing.T) {
	s, err := newPlace(t, `{"id":"one","input":"1+1?","model":[{"text":"2"}],"grade":{"kind":"exact","expected":"2"}}`).config()
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.Config
	c, err := scenario.Of(cfg.Bench, cfg.Target.Name).Case(0)
	if err != nil {
		t.Fatal(err)
	}
	of := func(change func(*scenario.Task)) digest.Content {
		copied := *c
		change(&copied)
		in, err := InputsOf(&cfg, &copied)
		if err != nil {
			t.Fatal(err)
		}
		return in.Drive
	}
	file := func(path, data string) []digest.File { return []digest.File{{Path: path, Data: []byte(data)}} }
	seen := map[digest.Content]string{}
	for name, change := range map[string]func(*scenario.Task){
		"as it is":      func(*scenario.Task) {},
		"a file":        func(c *scenario.Task) { c.Files = file("a", "1") },
		"its content":   func(c *scenario.Task) { c.Files = file("a", "2") },
		"its name":      func(c *scenario.Task) { c.Files = file("b", "1") },
		"name and text": func(c *scenario.Task) { c.Files = file("a1", "") },
		"two":           func(c *scenario.Task) { c.Files = append(file("a", "1"), file("b", "1")...) },
		"a test":        func(c *scenario.Task) { c.Tests = file("a", "1") },
		"a cassette":    func(c *scenario.Task) { c.Cassette = &bench.Cassette{Digest: digest.ContentOf([]byte("x"))} },
		"what is said":  func(c *scenario.Task) { c.Scenario.Turns = []scenario.Turn{{Text: "other"}} },
	} {
		got := of(change)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same inputs", name, other)
		}
		seen[got] = name
	}
	if of(func(c *scenario.Task) { c.Expected = []byte(`{"x":1}`) }) != of(func(*scenario.Task) {}) {
		t.Error("what graders expect has an agent driven again")
	}
}
