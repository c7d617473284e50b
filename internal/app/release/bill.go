package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"
)

// A component is one of CycloneDX 1.5.
type component struct {
	Type    string              `json:"type"`
	Ref     string              `json:"bom-ref,omitempty"`
	Name    string              `json:"name"`
	Version string              `json:"version,omitempty"`
	PURL    string              `json:"purl,omitempty"`
	Hashes  []map[string]string `json:"hashes,omitempty"`
}

// bill makes a bill of materials (CycloneDX 1.5) of what the programs themselves
// say that they were built of. It has no serial number: that would be random.
func bill(in Input) ([]byte, error) {
	modules := map[string]component{}
	var programs []component
	for _, b := range in.Builds {
		for _, name := range slices.Sorted(maps.Keys(b.Programs)) {
			data := b.Programs[name]
			info, err := buildinfo.Read(bytes.NewReader(data))
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", name, b.Platform, err)
			}
			add(modules, info)
			programs = append(programs, component{Type: "application", Ref: name + "_" + b.Platform.String(), Name: name, Version: in.Version,
				Hashes: []map[string]string{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sha256.Sum256(data))}}})
		}
	}
	components := programs
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		components = append(components, modules[ref])
	}
	doc := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata": map[string]any{"timestamp": in.Time.UTC().Format(time.RFC3339),
			"component": component{Type: "application", Ref: "tallystick", Name: "tallystick", Version: in.Version}},
		"components": components,
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	return append(out, '\n'), err
}

// add notes the modules of a program, and the standard library, which is part of
// it like any other.
func add(modules map[string]component, info *debug.BuildInfo) {
	list := []component{{Type: "library", Name: "std", Version: info.GoVersion, PURL: "pkg:golang/std@" + info.GoVersion}}
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		list = append(list, component{Type: "library", Name: d.Path, Version: d.Version, PURL: "pkg:golang/" + d.Path + "@" + d.Version})
	}
	for _, c := range list {
		c.Ref = c.PURL
		modules[c.Ref] = c
	}
}
