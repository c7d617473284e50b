package workspace

import (
	"path/filepath"

	"tallystick/internal/record/refusal"
)

// StateDir is where this user's machine remembers what it signed, outside of
// every workspace, by the XDG base directory rules.
func StateDir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "tallystick"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tallystick"), nil
	}
	return "", refusal.Newf(refusal.Unreadable, "neither XDG_STATE_HOME nor HOME names a folder").
		WithHint("the memory of signed checkpoints is kept there; set XDG_STATE_HOME")
}
