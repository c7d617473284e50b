package audit

import (
	"path"
	"slices"
	"strings"

	"tallystick/internal/read/program"
)

// scripts are extensions of programs in languages that the audit does not read.
// They are texts, so that a folder of sources has them, and the audit names them.
var scripts = []string{".awk", ".bat", ".cmd", ".ex", ".exs", ".ipynb", ".jl", ".lua", ".php", ".pl", ".ps1", ".r", ".rb", ".tcl"}

// IsProgram reports whether AUD-8 and AUD-9 read a file, or name it as one that
// they cannot read, by its name or the beginning of its text.
func IsProgram(name string, head []byte) bool {
	return program.LanguageOf(name, head) != nil || slices.Contains(scripts, strings.ToLower(path.Ext(name)))
}
