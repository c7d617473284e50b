package ceremony

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// begin makes a workspace with the example people and a clock of its own.
func begin(t *testing.T, edit func(*InitOptions)) (*dossier.Place, error) {
	t.Helper()
	state := t.TempDir()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	world := dossier.World{Now: func() time.Time { return now }, Note: t.Logf, Getenv: func(name string) string {
		if name == "XDG_STATE_HOME" {
			return state
		}
		return ""
	}}
	o := InitOptions{Dir: filepath.Join(t.TempDir(), "ws"), Origin: "example.com/evals", Operator: "olga@example.com"}
	if edit != nil {
		edit(&o)
	}
	return Init(t.Context(), o, world)
}

func mustBegin(t *testing.T) *dossier.Place {
	t.Helper()
	p, err := begin(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func refused(t *testing.T, err error, name refusal.Name, text string) {
	t.Helper()
	if !refusal.Is(err, name) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %s that says %q", err, name, text)
	}
}

// A new workspace verifies, and so does the class that two example people signed.
func TestInitMakesAWorkspaceThatVerifies(t *testing.T) {
	p := mustBegin(t)
	if _, err := p.Verify(nil); err != nil {
		t.Fatal(err)
	}
	c, err := p.OpenCorpus()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	classes, err := EveryClass(c)
	if err != nil {
		t.Fatal(err)
	}
	if results, _, err := VerifyClasses(c, classes); err != nil || len(results) != 1 || results[0].Level != "signed by example signers" {
		t.Errorf("%+v, %v", results, err)
	}
	// A second one would be another ledger under the same folder.
	_, err = Init(t.Context(), InitOptions{Dir: p.Dir, Operator: "olga@example.com"}, p.World)
	refused(t, err, refusal.AlreadyExists, "is a workspace already")
}

// Nothing is written for people who could never change the file again.
func TestInitRefusesPeopleWhoCouldNotChangeTheFile(t *testing.T) {
	operator, err := seal.NewKey(strings.NewReader(strings.Repeat("o", 32)))
	if err != nil {
		t.Fatal(err)
	}
	key := func(letter string) string {
		k, err := seal.NewKey(strings.NewReader(strings.Repeat(letter, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return k.Public().String()
	}
	for _, tt := range []struct{ name, people, want string }{
		{"one person", "alice " + key("a") + " roles=curator,security\n", "by 1 of its people"},
		{"no person holds security", "alice " + key("a") + " roles=curator\nbob " + key("b") + " roles=curator\n", "no person who can sign now has the security role"},
		{"people without a role", "alice " + key("a") + " roles=security\nbob " + key("b") + "\n", "by 1 of its people"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file, keyFile := filepath.Join(dir, "signers"), filepath.Join(dir, "operator")
			text := "# tallystick-signers/1-draft\n# version: 1\nolga " + operator.Public().String() + " roles=operator\n" + tt.people
			pem, err := operator.MarshalPEM("olga")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(keyFile, pem, 0o600); err != nil {
				t.Fatal(err)
			}
			world := dossier.World{Now: time.Now, Note: t.Logf, Getenv: func(name string) string {
				return map[string]string{"XDG_STATE_HOME": dir, "TALLY_OPERATOR_KEY": keyFile}[name]
			}}
			ws := filepath.Join(dir, "ws")
			_, err = Init(t.Context(), InitOptions{Dir: ws, Signers: file, Operator: "olga"}, world)
			refused(t, err, refusal.SignersChainBroken, tt.want)
			if _, err := os.Lstat(ws); err == nil {
				t.Error("a folder was left behind")
			}
		})
	}
}

func TestKeysAreNamedSafelyAndNeverOverwritten(t *testing.T) {
	p := mustBegin(t)
	first, err := NewKey(p, "credential")
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewKey(p, "credential")
	refused(t, err, refusal.AlreadyExists, "not overwritten")
	again, err := LoadKey(p, "credential")
	if err != nil || again.Fingerprint() != first.Fingerprint() {
		t.Errorf("%v, %v", again, err)
	}
	for _, name := range []string{"", "../operator", "a/b", "operator.salt", "x.pub", ".hidden", "Upper", strings.Repeat("a", 65)} {
		if _, err := NewKey(p, name); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err = LoadKey(p, "stranger")
	refused(t, err, refusal.UnknownName, "no key stranger")
}

// A signature that would not count is refused where it is made.
func TestSignersAreSignedByThoseWhoCount(t *testing.T) {
	p := mustBegin(t)
	s, err := ReadSigners(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sign(Pen{Key: filepath.Join(p.KeysDir(), "example-alice")}); !refusal.Is(err, refusal.Usage) {
		t.Errorf("a file that proposes nothing: %v", err)
	}
	if version, err := s.Next(); err != nil || version != 2 {
		t.Fatal(version, err)
	}
	if s, err = ReadSigners(p); err != nil || s.State() != FileProposed {
		t.Fatal(s, err)
	}
	if _, err := NewKey(p, "stranger"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Sign(Pen{Key: filepath.Join(p.KeysDir(), "stranger")})
	refused(t, err, refusal.SignerUnknown, "nothing was signed")
	if missing, err := s.Sign(Pen{Key: filepath.Join(p.KeysDir(), "example-alice")}); err != nil || missing == nil {
		t.Errorf("one of two: %v, %v", missing, err)
	}
	if _, _, err := s.Apply(t.Context()); !refusal.Is(err, refusal.TwoPersonRule) {
		t.Errorf("applied by one: %v", err)
	}
	if missing, err := s.Sign(Pen{Key: filepath.Join(p.KeysDir(), "example-bob")}); err != nil || missing != nil {
		t.Errorf("two of two: %v, %v", missing, err)
	}
	if version, _, err := s.Apply(t.Context()); err != nil || version != 2 {
		t.Error(version, err)
	}
}
