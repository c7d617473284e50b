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

const noSamples = "has no texts that can be left out"

var (
	otelFormat = Format{Name: OTel, Is: "OpenTelemetry spans, one OTLP JSON document", Files: "one OTLP JSON document: [telemetry.md](telemetry.md)", ImportsAgain: true, NoWithhold: noSamples}
	vcFormat   = Format{Name: VC, Is: `a W3C credential, as "tally attest" issues it (needs --key and --harness-file)`, Files: "a [credential](credential.md)",
		Signed: true, Flags: []string{"key", "runner-did", "key-id", "harness-file", "model-id"}, NoWithhold: noSamples, NoCase: "a credential is about the whole attempt"}
	htmlFormat = Format{Name: HTML, Is: "one page that opens from disk and checks itself, with receipts and evidence",
		Files:    "one page that opens from disk, checks itself, and that `tally verify` makes again: [checking.md](../checking.md#reports)",
		NeedsOut: true, NoWithhold: "carries signed records and evidence, which cannot be changed; held-out cases are left out of it"}
)

// A Request is what a person asked for: a format, and which of the things that go
// with it were given.
type Request struct {
	Format, Glob              string
	File                      string // that -o names
	Out, Key, Withhold, Salts bool
	Flags                     []string // every flag that was given
}

// misplaced is a flag that was given and that only other formats take, with their
// names.
func (r Request) misplaced(f *Format) (flag string, takers []string) {
	for _, name := range r.Flags {
		if slices.Contains(f.Flags, name) {
			continue
		}
		for _, other := range formats {
			if slices.Contains(other.Flags, name) {
				flag, takers = name, append(takers, other.Name)
			}
		}
		if flag != "" {
			return flag, takers
		}
	}
	return "", nil
}

// Validate refuses usage errors.
func (r Request) Validate() error {
	usage := func(format string, args ...any) *refusal.Error { return refusal.Newf(refusal.Usage, format, args...) }
	f, err := Find(r.Format)
	switch {
	case err != nil:
		return refusal.Newf(refusal.Usage, "--format %q: expected one of %s", r.Format, strings.Join(All(), ", ")).
			Suggest(r.Format, All(), "give one of them")
	case f.Signed && !r.Key:
		return usage("--format %s is signed: --key is missing", f.Name)
	case (f.Folder || f.NeedsOut) && !r.Out:
		return usage("--format %s needs -o", f.Name)
	case f.Endings != nil && !slices.Contains(f.Endings, path.Ext(r.File)):
		return usage("-o %q: the name of a file of --format %s ends in %s, which decides its form", r.File, f.Name, strings.Join(f.Endings, " or ")).
			WithHint("give -o %s", strings.TrimSuffix(r.File, path.Ext(r.File))+f.Endings[0])
	case r.Withhold && f.NoWithhold != "":
		return usage("--withhold does not apply to --format %s, which %s", f.Name, f.NoWithhold)
	case r.Salts && !r.Withhold:
		return usage("--salts is for --withhold")
	case r.Glob != "" && f.NoCase != "":
		return usage("--case: %s", f.NoCase)
	}
	if flag, takers := r.misplaced(f); flag != "" {
		return usage("--%s does not apply to --format %s; it goes with %s", flag, f.Name, strings.Join(takers, ", "))
	}
	if _, err := path.Match(r.Glob, ""); err != nil {
		return usage("--case %q: %w", r.Glob, err)
	}
	return nil
}
