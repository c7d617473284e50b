package outgoing

import (
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/share/export"
)

// WriteOutputs writes files that a person asked for into a folder, which is made if
// need be.
func WriteOutputs(dir string, files []export.File) error {
	var named []store.Named
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return refusal.Newf(refusal.Usage, "the export would write %q, outside of %s", f.Name, dir)
		}
		named = append(named, store.Named{Name: filepath.Join(dir, filepath.FromSlash(f.Name)), Data: f.Data})
	}
	return store.WriteFiles(store.OS{}, named, 0o644)
}
