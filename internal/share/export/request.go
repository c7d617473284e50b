package export

import (
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
)

// The formats that others write: packages otel, attest and browser/report.
const (
	OTel = "otel"
	VC   = "vc"
	HTML = "html"
)

// All are the formats that an attempt leaves in.
func All() []string { return append([]string{OTel, VC, HTML}, Formats...) }

// IsFolder reports whether a format is several files.
func IsFolder(format string) bool { return format == "eee" || format == "hf" || format == "in-toto" }

// A Request is what a person asked for: a format, and which of the things that go
// with it were given.
type Request struct {
	Format, Glob              string
	Out, Key, Withhold, Salts bool
}

// Validate refuses what was asked wrongly.
func (r Request) Validate() error {
	usage := func(format string, args ...any) error { return refusal.Newf(refusal.Usage, format, args...) }
	switch f := r.Format; {
	case !slices.Contains(All(), f):
		return refusal.Newf(refusal.Usage, "--format %q: expected one of %s", f, strings.Join(All(), ", ")).
			Suggest(f, All(), "give one of them")
	case (f == VC || f == "in-toto") && !r.Key:
		return usage("--format %s is signed: --key is missing", f)
	case (IsFolder(f) || f == "inspect" || f == HTML) && !r.Out:
		return usage("--format %s needs -o", f)
	case r.Withhold && f == HTML:
		return usage("--withhold: --format html carries signed records and evidence, which cannot be changed; held-out cases are left out of it")
	case r.Withhold && (f == OTel || f == VC):
		return usage("--withhold: --format %s has no samples to withhold, or none that it could do without", f)
	case r.Salts && !r.Withhold:
		return usage("--salts is for --withhold")
	case r.Glob != "" && f == VC:
		return usage("--case: a credential is about the whole attempt")
	}
	if _, err := path.Match(r.Glob, ""); err != nil {
		return usage("--case %q: %w", r.Glob, err)
	}
	return nil
}
