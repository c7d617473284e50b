package submission

import (
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/evidence"
)

// programs are what decides a score, as AUD-8, AUD-9 and AUD-11 read it.
type programs struct {
	given bool
	files []audit.SourceFile
	gaps  []string // what decides it and is not among the files, and why
	data  []string // data of the agent that is not among the files, and why
	notes []string // what the agent has besides its files
}

// programs reads the list that the plan names and the files that were kept. The
// settings of a target are its first file: the built-in one has no other.
func (b *builder) programs() error {
	p := &b.sources
	if b.Target != nil {
		p.files = append(p.files, audit.SourceFile{Path: TargetFile, SHA256: sha256Hex(b.Target), Agent: true, Open: opener(b.Target)})
		p.notes = installed(b.Target)
	}
	plan := &b.Registered.Plan
	switch {
	case plan.Sources != nil && b.WithoutSources:
		p.gaps = append(p.gaps, "the maker of the package left the programs out that decide the score")
		return nil
	case plan.Sources != nil:
		p.given = true
		return b.kept()
	}
	p.given = b.settingsDecide()
	if !p.given {
		p.files = nil
		p.gaps = append(p.gaps, "the attempt was not recorded for a submission, so that the programs of the target or the rubric were not kept")
	}
	return nil
}

// kept reads the files that were kept at the registration.
func (b *builder) kept() error {
	p := &b.sources
	var list evidence.Sources
	if err := b.document(*b.Registered.Plan.Sources, &list); err != nil {
		return fmt.Errorf("the list of programs: %w", err)
	}
	if err := list.Validate(); err != nil {
		return bad("the list of programs: %v", err)
	}
	if b.Target == nil {
		p.gaps = append(p.gaps, "the settings of the target are not at hand")
	}
	p.gaps = append(p.gaps, list.Missing...)
	for _, f := range list.Files {
		if !f.Kept {
			why := fmt.Sprintf("%s has %d bytes and was not kept: more than %d, or more than %d with the others", f.Path, f.Bytes, evidence.MaxSourceBytes, evidence.MaxSourcesBytes)
			if audit.MayBeProgram(f.Path) {
				p.gaps = append(p.gaps, why)
			} else if isAgents(f.Path) {
				p.data = append(p.data, why)
			}
			continue
		}
		data, err := b.Read(f.Digest)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		p.files = append(p.files, audit.SourceFile{Path: f.Path, SHA256: sha256Hex(data), Agent: isAgents(f.Path), Open: opener(data)})
	}
	return nil
}

// isAgents tells the files of the agent from those of the bench, which has the
// answers: rubrics and the templates of judges.
func isAgents(path string) bool {
	return strings.HasPrefix(path, "target/") || strings.HasPrefix(path, "parameters/")
}

// installed says that a target has packages, of which its settings have one digest.
func installed(target []byte) (notes []string) {
	var settings map[string]json.RawMessage
	if json.Unmarshal(target, &settings) != nil {
		return nil // the plan has its digest, so it is what was written
	}
	for _, name := range []string{"node_modules", "venv"} {
		if d := settings[name]; d != nil {
			notes = append(notes, fmt.Sprintf("the packages installed in %s, %s, are known by this digest and were not looked through (information)", name, strings.Trim(string(d), `"`)))
		}
	}
	return notes
}

// settingsDecide reports whether the settings of the target are all that decides
// its behaviour here: the built-in one has no files of its own, and built-in
// graders are this program.
func (b *builder) settingsDecide() bool {
	var target struct {
		Kind string `json:"kind"`
	}
	return b.Target != nil && json.Unmarshal(b.Target, &target) == nil && target.Kind == "builtin" && b.Registered.Plan.RubricDigest == nil
}
