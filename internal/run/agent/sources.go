package agent

import (
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
)

// Sources are the files of the target's own program, by path, and what decides how
// it behaves that is not among them, with the reason. Installed packages are not:
// the settings have their digest.
func (t *Target) Sources() (files []digest.File, missing []string) {
	for _, f := range t.Files() {
		files = append(files, digest.File{Path: "target/" + f.Path, Data: f.Data})
	}
	for _, f := range t.parameterFiles() {
		files = append(files, digest.File{Path: "parameters/" + f.Path, Data: f.Data})
	}
	slices.SortFunc(files, func(a, b digest.File) int { return strings.Compare(a.Path, b.Path) })
	switch {
	case t.HTTP != nil:
		missing = append(missing, "the agent runs elsewhere, behind a URL: nobody here sees its program")
	case t.Command != nil && !t.runsItsFiles():
		missing = append(missing, "the command does not run a file of the target: its program is not recorded")
	}
	if t.Command != nil {
		for _, m := range t.Command.Mounts {
			inside := m.Inside
			if inside == "" {
				inside = m.Host
			}
			missing = append(missing, "what is mounted as "+inside+" is recorded by its digest only")
		}
	}
	return files, missing
}

// runsItsFiles reports whether a word of the command is a file of the target, by
// its path in the sandbox or relative to the folder of its files, or a module of
// that name.
func (t *Target) runsItsFiles() bool {
	for i, word := range t.Command.Command {
		name := strings.TrimPrefix(path.Clean(word), filesInside+"/")
		if i > 0 && t.Command.Command[i-1] == "-m" {
			name = strings.ReplaceAll(word, ".", "/")
		}
		for _, f := range t.Files() {
			if f.Path == name || strings.HasPrefix(f.Path, name+"/") || f.Path == name+".py" {
				return true
			}
		}
	}
	return false
}
