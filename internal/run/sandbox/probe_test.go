package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestForbiddenNamespacesAreNamed: on Ubuntu 24.04 and on hardened systems no
// class starts, and a person must be told which setting it is.
func TestForbiddenNamespacesAreNamed(t *testing.T) {
	for name, tt := range map[string]struct{ file, value, want string }{
		"AppArmor":          {"kernel/apparmor_restrict_unprivileged_userns", "1\n", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		"AppArmor, allowed": {"kernel/apparmor_restrict_unprivileged_userns", "0\n", ""},
		"Debian's switch":   {"kernel/unprivileged_userns_clone", "0\n", "sysctl -w kernel.unprivileged_userns_clone=1"},
		"none at all":       {"user/max_user_namespaces", "0\n", "sysctl -w user.max_user_namespaces=10000"},
		"many":              {"user/max_user_namespaces", "96343\n", ""},
		"another setting":   {"kernel/other", "1\n", ""},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, tt.file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(tt.value), 0o644); err != nil {
			t.Fatal(err)
		}
		got := whyNoNamespaces(dir)
		if (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
