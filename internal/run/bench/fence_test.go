package bench

import (
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

const ciPath = WorkflowFile

func TestFenceNoticesThatItIsSwitchedOff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		poison func(f *fixture)
		want   refusal.Name
		texts  []string
	}{
		{"nothing", func(f *fixture) {}, "", nil},
		{"a scratch class is not guarded", func(f *fixture) {
			for name, data := range Example("play", Scratch, nil, nil, now) {
				f.write("bench/play/"+name, data)
			}
		}, "", nil},
		{"the call commented out", func(f *fixture) { f.edit(ciPath, "- run: tally bench verify", "# run: tally bench verify") },
			refusal.PinMismatch, []string{ciPath, "pins blake3:"}},
		{"one byte of the CI file", func(f *fixture) { f.flip(ciPath) }, refusal.PinMismatch, []string{ciPath}},
		{"the CI file removed", func(f *fixture) { f.remove(ciPath) }, refusal.FenceMissing, []string{ciPath}},
		{"the CI file replaced by a link", func(f *fixture) {
			f.must(os.Rename(f.path(ciPath), f.path("real.yml")))
			f.link("../../real.yml", ciPath)
		}, refusal.BenchTreeInvalid, []string{ciPath}},
		{"the pin changed with it", func(f *fixture) {
			f.write(ciPath, []byte("jobs: {}\n"))
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI.Digest = digest.ContentOf([]byte("jobs: {}\n"))
			f.write(PinsFile, pins.Format())
		}, refusal.SignatureInvalid, []string{PinsFile}},
		{"a file that never called it, pinned and signed", func(f *fixture) {
			f.write(ciPath, []byte("jobs: {}\n"))
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI.Digest = digest.ContentOf([]byte("jobs: {}\n"))
			f.write(PinsFile, pins.Format())
			f.sealPins("alice", "bob")
		}, refusal.FenceMissing, []string{ciPath + ":1", "found no setting \"fence\""}},
		{"no CI file pinned", func(f *fixture) {
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI = nil
			f.write(PinsFile, pins.Format())
			f.sealPins("alice", "bob")
		}, refusal.PinMismatch, []string{"pins no CI file"}},
		{"the pins removed", func(f *fixture) { f.remove(PinsFile) }, refusal.BenchIncomplete, []string{PinsFile}},
		{"a class removed", func(f *fixture) { f.remove("bench/greet") }, refusal.BenchIncomplete, []string{"class greet"}},
		{"its rubric removed", func(f *fixture) { f.remove("bench/greet/rubric.star") }, refusal.BenchIncomplete, []string{"class greet", "rubric"}},
		{"its cases removed", func(f *fixture) { f.remove("bench/greet/cases"); f.remove("bench/greet/dataset.jsonl") },
			refusal.BenchIncomplete, []string{"class greet", "no cases"}},
		{"its registration removed", func(f *fixture) { f.remove("bench/greet/registration.yaml") }, refusal.BenchIncomplete, []string{"class greet", "registration.yaml"}},
		{"a class that became scratch", func(f *fixture) { f.edit("bench/greet/registration.yaml", "trust: signed", "trust: scratch") },
			refusal.PinMismatch, []string{"class greet", "trust scratch"}},
		{"a signed class that is not pinned", func(f *fixture) {
			for name, data := range Example("play", Signed, nil, nil, now) {
				f.write("bench/play/"+name, data)
			}
		}, refusal.PinMismatch, []string{"class play"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			tt.poison(f)
			fence, err := CheckFence(f.root, ciPath, f.opt)
			if tt.want == "" {
				f.must(err)
				if fence.Digest != digest.ContentOf(f.read(ciPath)) || len(fence.Classes) != 1 {
					t.Errorf("fence %+v", fence)
				}
				return
			}
			requireRefusal(t, err, tt.want, tt.texts...)
		})
	}
}

// A copy of the pinned file elsewhere is not the one that CI runs.
func TestFenceIsThePinnedFileAndNotACopy(t *testing.T) {
	f := newFixture(t)
	f.write("copy.yml", f.read(ciPath))
	_, err := CheckFence(f.root, "copy.yml", f.opt)
	requireRefusal(t, err, refusal.PinMismatch, "copy.yml", "pins "+ciPath)
}

func TestMarkerIsOfOneCommitAndOneFile(t *testing.T) {
	f := newFixture(t)
	fence, err := CheckFence(f.root, ciPath, f.opt)
	f.must(err)
	benches := map[string]digest.ID{"greet": f.accepts().Digest()}
	honest := NewMarker(fence, "c0ffee", benches)
	data, err := honest.Marshal()
	f.must(err)
	f.must(honest.Check("marker", data))
	for _, tt := range []struct {
		name  string
		data  []byte
		texts []string
	}{
		{"another commit", replace(data, "c0ffee", "decade"), []string{"commit", "decade", "c0ffee"}},
		{"another file", replace(data, "bench.yml", "other.yml"), []string{"ci_file"}},
		{"another digest of the file", replace(data, fence.Digest.String()[:20], "blake3:0000000000000"), []string{"ci_digest"}},
		{"other pins", replace(data, fence.Pins.String()[:20], "sha256:0000000000000"), []string{"pins"}},
		{"another bench", replace(data, benches["greet"].String()[:20], "sha256:0000000000000"), []string{"bench greet"}},
		{"one bench less", replace(data, `"greet":"`+benches["greet"].String()+`"`, ""), []string{"bench greet"}},
		{"one bench more", replace(data, `"benches":{`, `"benches":{"a":"`+fence.Pins.String()+`",`), []string{"benches"}},
		{"nothing", nil, []string{"not a marker"}},
		{"something else", []byte("ok\n"), []string{"not a marker"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireRefusal(t, honest.Check("marker", tt.data), refusal.FenceDidNotRun, append(tt.texts, "marker")...)
		})
	}
}

func replace(data []byte, old, new string) []byte {
	return []byte(strings.Replace(string(data), old, new, 1))
}
