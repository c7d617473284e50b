package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
)

// A standing is what is known of the attempts of a trial and recommended by it. A
// workspace that cannot be read has none.
type standing struct {
	levels     map[string]history.Level
	properties map[string][]history.Property
	tier       int
	outside    int
}

func (l *trial) standing() standing {
	s := standing{levels: map[string]history.Level{}, properties: map[string][]history.Property{}, tier: -1}
	env := newEnv(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}, l.getenv)
	env.WorkspaceDir = l.dir
	p, err := openPlace(env)
	if err != nil {
		return s
	}
	r, err := p.Read(dossier.Ask{Again: true, Prove: true})
	if err != nil {
		return s
	}
	for _, a := range r.History.Attempts {
		s.levels[a.ID], s.properties[a.ID] = a.Level, a.Properties()
	}
	if rec, err := answer.Advise(r, "example"); err == nil {
		s.tier, s.outside = slices.Index(bench.Tiers(), bench.Tier(rec.RecommendedTier)), len(rec.Outside)
	}
	return s
}

// above says what rose from one standing to another, "" if nothing did.
func (s standing) above(before standing) string {
	for id, level := range s.levels {
		if level > before.levels[id] {
			return fmt.Sprintf("attempt %s is %s, was %s", id, level, before.levels[id])
		}
		for _, p := range s.properties[id] {
			if !slices.Contains(before.properties[id], p) {
				return fmt.Sprintf("attempt %s became %s", id, p)
			}
		}
	}
	if s.tier > before.tier || s.outside > before.outside {
		return fmt.Sprintf("recommended is tier %d, was %d; %d have seen it outside, were %d", s.tier, before.tier, s.outside, before.outside)
	}
	return ""
}

// Nothing that an attempt is worth follows from a file without signatures: whatever is
// written into one of them, or taken out, no property, level or tier rises. The
// forger has a witness of his own that saw everything in time, and a remote.
func TestNothingUnsignedRaisesAnything(t *testing.T) {
	l := newTrial(t)
	forger, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{9}, 32)))
	l.must(err)
	env := newEnv(nil, nil, nil, l.getenv)
	env.WorkspaceDir = l.dir
	w, err := openPlace(env)
	l.must(err)
	publish := func(led *sequencer.Ledger) {
		pub, err := led.PublishAnchor(context.Background(), []sequencer.Cosigner{testCosigner{forger}})
		l.must(err)
		l.must(w.KeepCheckpoint(pub))
	}
	l.registered = publish
	l.attempt(true, nil)
	cfg, err := w.Config()
	l.must(err)
	led, err := sequencer.Open(l.Context(), cfg)
	l.must(err)
	publish(led)
	l.must(led.Close())
	l.pretendRemote()
	before := l.standing()
	if before.levels["example.default.1"] != history.Signed || before.outside != 0 {
		t.Fatalf("the honest workspace: %+v", before)
	}
	try := func(name string) {
		t.Helper()
		if why := l.standing().above(before); why != "" {
			t.Errorf("%s: %s", name, why)
		}
	}

	// Every member of the settings: taken out, and as the forger would have it.
	pub, _ := forger.Public().Ed25519()
	settings := l.read("tally.yaml")
	members := map[string]string{
		"Version": "version: 1", "Origin": "origin: example.com/mine", "TrustRoot": "trust_root: sha256:" + strings.Repeat("1", 64),
		"Witnesses":  fmt.Sprintf("witnesses:\n  - {url: \"http://127.0.0.1:1\", key: %q}", seal.CosignatureVKey(pub, "witness.example")),
		"Quorum":     fmt.Sprintf("quorum: 1\nwitnesses:\n  - {url: \"http://127.0.0.1:1\", key: %q}", seal.CosignatureVKey(pub, "witness.example")),
		"Ledger":     "ledger: s3://127.0.0.1:1/bucket/mine",
		"TestMounts": "test_mounts: [{host: /usr}]",
		"Live":       "live: {max_cost_per_run: 1000, max_cost_per_day: 1000, max_calls_per_day: 1000}",
		"TestImage":  "test_image: blake3:" + strings.Repeat("1", 64),
	}
	for i := range reflect.TypeFor[workspace.Settings]().NumField() {
		name := reflect.TypeFor[workspace.Settings]().Field(i).Name
		if members[name] == "" {
			t.Errorf("what a forger writes into the setting %s is not tried here", name)
		}
	}
	for name, line := range members {
		key, _, _ := strings.Cut(line, ":")
		without := regexp.MustCompile(`(?m)^`+key+`:.*\n`).ReplaceAllString(settings, "")
		for _, text := range []string{without, without + line + "\n"} {
			l.write("tally.yaml", []byte(text))
			try("tally.yaml, " + name)
		}
	}
	l.write("tally.yaml", []byte(settings+members["Quorum"]+"\n"))
	// With the forger's witness in the settings, every file is taken away, cut, added to
	// and exchanged for another one.
	var files []string
	l.must(filepath.WalkDir(l.dir, func(path string, e fs.DirEntry, err error) error {
		if e.Type().IsRegular() && !strings.Contains(path, "/.git/objects/") {
			files = append(files, path)
		}
		return err
	}))
	for i, path := range files {
		name, _ := filepath.Rel(l.dir, path)
		data, err := os.ReadFile(path)
		l.must(err)
		other, err := os.ReadFile(files[(i+1)%len(files)])
		l.must(err)
		info, err := os.Stat(path)
		l.must(err)
		l.must(os.Remove(path))
		try(name + " is gone")
		for what, text := range map[string][]byte{"empty": nil, "cut": data[:len(data)/2], "longer": append(bytes.Clone(data), "\nx: y\n"...), "another": other} {
			l.must(os.WriteFile(path, text, info.Mode()))
			try(name + " is " + what)
		}
		l.must(os.WriteFile(path, data, info.Mode()))
	}
	// And what was not there is put there.
	l.ok("signers", "operators", "--add")
	try("audit/operators.yaml")
	if after := l.standing(); after.levels["example.default.1"] != history.Signed {
		t.Errorf("in the end: %+v", after)
	}
}

// pretendRemote makes a repository of the workspace, with a remote that no person signed
// for and whose ref has the anchors.
func (l *trial) pretendRemote() {
	l.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		return
	}
	for _, args := range [][]string{{"init", "-q", "."}, {"add", "audit"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"},
		{"remote", "add", "origin", "https://git.example.com/evals.git"}, {"update-ref", "refs/remotes/origin/main", "HEAD"}} {
		cmd := exec.Command("git", append([]string{"-C", l.dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			l.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// A witness whose key one of the people, or this machine, has would cosign whatever it
// is given: also if two people signed for it, it does not count.
func TestOwnKeysAreNotWitnesses(t *testing.T) {
	for name, key := range map[string]func(p *scoredPlace) *seal.Key{
		"the operator's": func(p *scoredPlace) *seal.Key { return p.key },
		"a curator's": func(p *scoredPlace) *seal.Key {
			k, err := seal.LoadKey(filepath.Join(p.dir, ".tally", "keys", "example-alice"))
			if err != nil {
				t.Fatal(err)
			}
			return k
		},
		"one in the folder of keys": func(p *scoredPlace) *seal.Key { return p.newKey(filepath.Join(p.dir, ".tally", "keys", "spare")) },
		"one beside the operator's": func(p *scoredPlace) *seal.Key {
			dir := t.TempDir()
			data, err := os.ReadFile(filepath.Join(p.dir, ".tally", "keys", "operator"))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "operator"), data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			p.env["TALLY_OPERATOR_KEY"] = filepath.Join(dir, "operator")
			return p.newKey(filepath.Join(dir, "witness"))
		},
		"a stranger's": func(p *scoredPlace) *seal.Key { return p.newKey(filepath.Join(t.TempDir(), "w")) },
	} {
		p := newScoredPlace(t)
		witness := key(p)
		pub, _ := witness.Public().Ed25519()
		settings := filepath.Join(p.dir, "tally.yaml")
		data, err := os.ReadFile(settings)
		if err == nil {
			err = os.WriteFile(settings, fmt.Appendf(data, "witnesses:\n  - url: http://127.0.0.1:1\n    key: %s\nquorum: 1\n", seal.CosignatureVKey(pub, "witness.example")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		p.pinWitnesses()
		id := p.attemptThen("agent", 1, "bench", func(l *sequencer.Ledger, w *dossier.Place) {
			pub, err := l.PublishAnchor(context.Background(), []sequencer.Cosigner{testCosigner{witness}})
			if err == nil {
				err = w.KeepCheckpoint(pub)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 1)
		want := "signed"
		if name == "a stranger's" {
			want = "witnessed"
		}
		if got := p.answer("scorecard", id, "--no-evidence")["level"]; got != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
}

// newKey makes a key in a file.
func (p *scoredPlace) newKey(path string) *seal.Key {
	p.t.Helper()
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{31}, 32)))
	if err != nil {
		p.t.Fatal(err)
	}
	data, err := key.MarshalPEM("w")
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return key
}
