package bench

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

const (
	robotHard = "cassettes/greet/robot/hard.cassette.zst"
	robotLine = "cassettes/greet/robot/line-two.cassette.zst"
)

// withTargets is a signed class of which target robot has a recording of a case
// and of a line, and target other of the case alone.
func withTargets(t *testing.T) *fixture {
	f := newFixture(t)
	f.write(robotHard, []byte("hard, by a robot"))
	f.write(robotLine, []byte("line two, by a robot"))
	f.write("cassettes/greet/other/hard.cassette.zst", []byte("hard, by another"))
	f.seal()
	return f
}

func requireTape(t *testing.T, c *Cassette, want string) {
	t.Helper()
	if want == "" {
		if c != nil {
			t.Errorf("there is a cassette, %s", c.Digest)
		}
		return
	}
	if c == nil || c.Digest != digest.ContentOf([]byte(want)) {
		t.Errorf("the cassette is %v, want that of %q", c, want)
	}
}

func TestEachTargetReplaysItsOwnCassette(t *testing.T) {
	v := withTargets(t).accepts()
	hard, greeting := v.Cases()[1], v.Cases()[0]
	for target, want := range map[string]string{"robot": "hard, by a robot", "other": "hard, by another", "third": "a recording"} {
		c, _ := hard.CassetteFor(target)
		requireTape(t, c, want)
	}
	c, _ := greeting.CassetteFor("robot")
	requireTape(t, c, "")
	for target, want := range map[string]string{"robot": "line two, by a robot", "other": ""} {
		c, _ := v.LineCassette(target, "line-two")
		requireTape(t, c, want)
	}
	if v.Manifest().DatasetCassettes["robot"].IsZero() {
		t.Error("the manifest does not pin the cassettes of lines")
	}
}

// A signed pin decides, whichever place the file is in; it stays with the target
// whose folder it is in.
func TestAPinnedCassetteMayMoveToItsTarget(t *testing.T) {
	f := newFixture(t)
	f.remove("cassettes/greet/hard.cassette.zst")
	f.write(robotHard, []byte("a recording"))
	v := f.accepts()
	c, made := v.Cases()[1].CassetteFor("robot")
	requireTape(t, c, "a recording")
	if want := v.Cases()[1].Case().CassetteProvenance; made != want {
		t.Errorf("it is %s, want %s", made, want)
	}
	c, _ = v.Cases()[1].CassetteFor("other")
	requireTape(t, c, "")
	if data, err := f.load().Cases[1].WithDigests(); err != nil || data != nil {
		t.Errorf("it is pinned again: %v\n%s", err, data)
	}
}

func TestVerifyRefusesForgedCassettesOfTargets(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(f *fixture)
		want refusal.Name
		said string
	}{
		{"swapped", func(f *fixture) { f.write(robotHard, []byte("the right answer")) }, refusal.CassetteDigestMismatch, "field cassettes.robot says"},
		{"one bit", func(f *fixture) { f.flip(robotHard) }, refusal.CassetteDigestMismatch, robotHard},
		{"removed, so that the shared one would be replayed", func(f *fixture) { f.remove(robotHard) }, refusal.CassetteDigestMismatch, "there is no " + robotHard},
		{"that of another target", func(f *fixture) { f.write(robotHard, []byte("hard, by another")) }, refusal.CassetteDigestMismatch, robotHard},
		{"the shared one in its place", func(f *fixture) { f.write(robotHard, []byte("a recording")) }, refusal.CassetteDigestMismatch, robotHard},
		{"added for a target", func(f *fixture) { f.write("cassettes/greet/third/hard.cassette.zst", []byte("x")) }, refusal.CassetteDigestMismatch, "pins no cassette for target third"},
		{"added for a case", func(f *fixture) { f.write("cassettes/greet/robot/greeting.cassette.zst", []byte("x")) }, refusal.CassetteDigestMismatch, "case greeting"},
		{"a link", func(f *fixture) {
			f.write("elsewhere", []byte("hard, by a robot"))
			f.link("../../../elsewhere", robotHard)
		}, refusal.BenchTreeInvalid, "link"},
		{"of a line, swapped", func(f *fixture) { f.write(robotLine, []byte("the right answer")) }, refusal.CassetteDigestMismatch, "for target robot"},
		{"of a line, removed", func(f *fixture) { f.remove(robotLine) }, refusal.CassetteDigestMismatch, "field dataset_cassettes says"},
		{"of a line, added for the same target", func(f *fixture) {
			f.write("cassettes/greet/robot/line-one.cassette.zst", []byte("x"))
		}, refusal.CassetteDigestMismatch, "for target robot"},
		{"of a line, added for another target", func(f *fixture) {
			f.write("cassettes/greet/third/line-two.cassette.zst", []byte("x"))
		}, refusal.CassetteDigestMismatch, "absent"},
		{"of a line, given to another line", func(f *fixture) {
			f.remove(robotLine)
			f.write("cassettes/greet/robot/line-one.cassette.zst", []byte("line two, by a robot"))
		}, refusal.CassetteDigestMismatch, "for target robot"},
		{"of a line, not pinned", func(f *fixture) {
			f.write(robotLine, []byte("the right answer"))
			m, _, err := f.load().Compute()
			f.must(err)
			f.write("bench/greet/manifest.yaml", m.Format())
		}, "", "manifest.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := withTargets(t)
			f.accepts()
			tt.do(f)
			if tt.want != "" {
				f.refuses(tt.want, tt.said)
				return
			}
			if _, err := f.verify(); err == nil || !strings.Contains(err.Error(), tt.said) {
				t.Errorf("it gave %v", err)
			}
		})
	}
}

// Without a pin, only the ledger makes a cassette a recording.
func TestAnUnpinnedCassetteIsRecordedOnlyIfTheLedgerSaysSo(t *testing.T) {
	f := withTargets(t)
	line := digest.ContentOf([]byte("line two, by a robot"))
	for _, tt := range []struct {
		made func(digest.Content) CassetteProvenance
		want CassetteProvenance
	}{
		{nil, Edited},
		{func(digest.Content) CassetteProvenance { return "" }, Edited},
		{func(d digest.Content) CassetteProvenance {
			if d == line {
				return Recorded
			}
			return ""
		}, Recorded},
	} {
		f.opt.Made = tt.made
		if _, made := f.accepts().LineCassette("robot", "line-two"); made != tt.want {
			t.Errorf("it is %q, want %q", made, tt.want)
		}
	}
}
