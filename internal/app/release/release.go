// Package release packs built programs for people who have no Go: archives, Debian
// packages, an OCI image layout, a bill of materials and checksums.
//
// The same programs, version and time give the same bytes: every entry has the
// time that is given, has no owner's name, and stands in a fixed order.
// Nothing here builds, signs or writes: .ci/release does, and calls the program in
// pack.
package release

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// A Platform is a system that programs were built for, as Go names it.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "_" + p.Arch }

// A Build is the programs of one platform, by name.
type Build struct {
	Platform Platform
	Programs map[string][]byte
}

// Input is what a release is made of.
type Input struct {
	Version string // such as v1.2.3
	Time    time.Time
	Builds  []Build
	// Shared are further files, by name: LICENSE, README.md, and the completions
	// completions/tally.bash, completions/_tally, completions/tally.fish.
	Shared map[string][]byte
}

// Files makes the files of a release, by name, SHA256SUMS among them.
func Files(in Input) (map[string][]byte, error) {
	if in.Version == "" || strings.ContainsAny(in.Version, "/ \n_") {
		return nil, fmt.Errorf("version %q: expected one such as v1.2.3", in.Version)
	}
	out := make(map[string][]byte)
	for _, b := range in.Builds {
		name := fmt.Sprintf("tally_%s_%s", in.Version, b.Platform)
		archive, err := tarball(in.Time, name, in.contents(b))
		if err != nil {
			return nil, err
		}
		out[name+".tar.gz"] = archive
		if b.Platform.OS != "linux" {
			continue
		}
		if out[fmt.Sprintf("tallystick_%s_%s.deb", debVersion(in.Version), b.Platform.Arch)], err = deb(in, b); err != nil {
			return nil, err
		}
	}
	var err error
	if out[fmt.Sprintf("tally_%s_oci.tar", in.Version)], err = image(in); err != nil {
		return nil, err
	}
	if out[fmt.Sprintf("tally_%s.cdx.json", in.Version)], err = bill(in); err != nil {
		return nil, err
	}
	out["SHA256SUMS"] = sums(out)
	return out, nil
}

// contents are the files of an archive.
func (in Input) contents(b Build) []file {
	var files []file
	for _, name := range slices.Sorted(maps.Keys(b.Programs)) {
		files = append(files, file{name, 0o755, b.Programs[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Shared)) {
		files = append(files, file{name, 0o644, in.Shared[name]})
	}
	return files
}

// sums is SHA256SUMS, as sha256sum --check reads it.
func sums(files map[string][]byte) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		out = fmt.Appendf(out, "%x  %s\n", sha256.Sum256(files[name]), path.Base(name))
	}
	return out
}
