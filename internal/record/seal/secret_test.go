package seal

import (
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestSecretIsTheFileWithoutTheLineBreakOfAText(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"a text without a line break", "0123456789abcdef", "0123456789abcdef"},
		{"a text with one", "0123456789abcdef\n", "0123456789abcdef"},
		{"a text of Windows", "0123456789abcdef\r\n", "0123456789abcdef"},
		{"two lines are not one", "0123\n4567\n", "0123\n4567\n"},
		{"binary that ends in 0x0a", "\x00\xff\n", "\x00\xff\n"},
		{"spaces belong to it", " key \n", " key "},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := LoadSecret(path)
			if err != nil || string(got) != tt.want {
				t.Errorf("LoadSecret = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestSecretThatOthersCanReadIsRefused(t *testing.T) {
	if !modesMatter {
		t.Skip("modes mean nothing here")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o620, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadSecret(path); !refusal.Is(err, refusal.KeyModeTooOpen) {
			t.Errorf("mode %04o: %v, want KeyModeTooOpen", mode, err)
		}
	}
	if _, err := LoadSecret(filepath.Dir(path)); !refusal.Is(err, refusal.Unreadable) {
		t.Errorf("a folder: %v, want Unreadable", err)
	}
}
