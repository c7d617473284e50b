package submission

// An Audited is what the audit made of the files.
type Audited struct {
	Report          []byte
	Clean, Complete bool
	StrictClean     bool
	Failures, Gaps  []string
}

// audit is not there yet.
func (b *builder) audit() (Audited, error) {
	return Audited{Report: []byte("{}\n"), Clean: true, Complete: true, StrictClean: true}, nil
}
