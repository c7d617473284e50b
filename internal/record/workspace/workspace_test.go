package workspace

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

var root = digest.IDOf([]byte("signers"))

func TestSettingsAreReadAsTheyAreWritten(t *testing.T) {
	// Origins that a reader of YAML could take for something else.
	for _, origin := range []string{"example.com/log", "2026-05-12", "127.0.0.1/log", "007", "1.5", "no", "null", "-", "---", ".5/x"} {
		want := Settings{Version: SettingsVersion, Origin: origin, TrustRoot: root}
		got, err := parseSettings("tally.yaml", want.Format())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v", origin, got, err)
		}
	}
}

func TestSettingsAreStrict(t *testing.T) {
	honest := string(Settings{Version: SettingsVersion, Origin: "example.com/log", TrustRoot: root}.Format())
	vkey := func(name string, seed byte) string {
		key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		return seal.CosignatureVKey(key.Ed25519().Public().(ed25519.PublicKey), name)
	}
	witness := "witnesses:\n  - url: http://127.0.0.1:7380\n    key: " + vkey("witness.example", 1) + "\n"
	second := func(name string, seed byte) string {
		return "  - url: http://127.0.0.1:7381\n    key: " + vkey(name, seed) + "\n"
	}
	for _, tt := range []struct{ name, yaml, want string }{
		{"a witness", honest + witness + "quorum: 1\n", ""},
		{"two witnesses", honest + witness + second("other.example", 2) + "quorum: 2\n", ""},
		{"one witness under two names", honest + witness + second("other.example", 1) + "quorum: 2\n", "have the same key, so they are one"},
		{"a witness without a key that is one", honest + strings.Replace(witness, "witness.example+", "witness.example+x", 1), "witness http://127.0.0.1:7380"},
		{"a ledger in a store", honest + "ledger: s3://bucket/team/log?endpoint=http://127.0.0.1:9000&region=eu-1\n", ""},
		{"a ledger elsewhere", honest + "ledger: https://example.com/log\n", "does not begin with s3://"},
		{"a ledger with a password", honest + "ledger: s3://name:secret@bucket/log\n", "credentials come from"},
		{"a ledger with a key in its query", honest + "ledger: s3://bucket/log?secret=x\n", "expected endpoint or region"},
		{"a ledger without a bucket", honest + "ledger: s3:///log\n", "names no bucket"},
		{"a ledger with a climbing prefix", honest + "ledger: s3://bucket/a/../b\n", "is not a plain path"},
		{"a mount of tests", honest + "test_mounts:\n  - {host: /opt/go, inside: /toolchain/go}\n  - {host: /opt/x}\n", ""},
		{"a mount of tests that is relative", honest + "test_mounts:\n  - {host: go}\n", "expected absolute paths"},
		{"a mount of tests that appears at a relative path", honest + "test_mounts:\n  - {host: /opt/go, inside: go}\n", "expected absolute paths"},
		{"a quorum of none", honest + "quorum: 0\n", ""},
		{"a key with a mistake", strings.Replace(honest, "version:", "versoin:", 1), "tally.yaml:2:1: versoin: is not a known key, expected one of version, origin, trust_root, witnesses, quorum, ledger"},
		{"a key of a witness with a mistake", honest + strings.Replace(witness, "url:", "uri:", 1), "witnesses.0.uri: is not a known key"},
		{"a key twice", honest + "version: 1\n", `the key "version" occurs twice`},
		{"an anchor", honest + "quorum: &q 0\n", "found an anchor or alias"},
		{"a merge key", honest + "<<: {quorum: 0}\n", "tally.yaml:12:1: found a merge key"},
		{"a tag", honest + "quorum: !!int 0\n", "found the tag !!int"},
		{"a second document", honest + "---\n" + honest, "found 2 YAML documents"},
		{"a NUL", honest + "# \x00\n", "found the character U+0000"},
		{"a byte order mark", "\ufeff" + honest, "tally.yaml:1:1: found the character U+FEFF"},
		{"bytes that are not UTF-8", honest + "# \xff\n", "not valid UTF-8"},
		{"a number in hexadecimal", honest + "quorum: 0x0\n", "found the number 0x0"},
		{"no origin", "version: 1\ntrust_root: " + root.String() + "\n", "origin: is missing"},
		{"no trust root", "version: 1\norigin: a\n", "trust_root: is missing"},
		{"a trust root of zeros", "version: 1\norigin: a\ntrust_root: " + digest.ID{}.String() + "\n", "trust_root is missing"},
		{"a trust root cut short", strings.Replace(honest, root.String(), root.String()[:20], 1), "trust_root:"},
		{"a version of the future", strings.Replace(honest, "version: 1", "version: 2", 1), "version: found 2, this program knows 1"},
		{"an invalid origin", strings.Replace(honest, "example.com", "Example.com", 1), "origin"},
		{"more in the quorum than there are", honest + witness + "quorum: 2\n", "quorum is 2, there are 1 witnesses"},
		{"a negative quorum", honest + "quorum: -1\n", "quorum is -1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseSettings("tally.yaml", []byte(tt.yaml))
			name := refusal.Malformed
			if tt.name == "a version of the future" {
				name = refusal.NewerFormat
			}
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (!refusal.Is(err, name) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want it to say %q", err, tt.want)
			}
		})
	}
}
