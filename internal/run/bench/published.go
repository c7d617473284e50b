package bench

import "tallystick/internal/record/digest"

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
