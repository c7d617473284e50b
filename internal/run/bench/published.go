package bench

import (
	"path"
	"strings"

	"tallystick/internal/record/digest"
)

// A DataSet names the published data that a class was made of, so that a result
// says on which split of which revision it was had.
type DataSet struct {
	Name     string     `json:"name"` // gaia
	Split    string     `json:"split"`
	Revision string     `json:"revision"`
	Files    []DataFile `json:"files"` // all that were read, by path
}

// A DataFile is one file of the published data.
type DataFile struct {
	Path   string    `json:"path"`
	SHA256 digest.ID `json:"sha256"`
}

// maxRevision bounds the name of a revision, which may be a date or a digest.
const maxRevision = 200

func (d *DataSet) validate() error {
	if d == nil {
		return nil
	}
	for _, name := range []struct{ at, text string }{{"data_set.name", d.Name}, {"data_set.split", d.Split}} {
		if err := CheckID(name.text); err != nil {
			return badField(name.at, "%w", err)
		}
	}
	if err := checkText("data_set.revision", d.Revision, maxRevision); err != nil {
		return err
	}
	if len(d.Files) == 0 {
		return badField("data_set.files", "is empty; expected every file that was read")
	}
	seen := map[string]bool{}
	for i, f := range d.Files {
		switch at := fieldAt("data_set.files", i); {
		case f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, ".."):
			return badField(at+".path", "found %.80q, expected a clean relative path", f.Path)
		case seen[f.Path]:
			return badField(at+".path", "%q is listed twice", f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}
