package release

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// where a package has what an archive has.
var debPlaces = map[string]string{
	"LICENSE":                "usr/share/doc/tallystick/copyright",
	"completions/tally.bash": "usr/share/bash-completion/completions/tally",
	"completions/_tally":     "usr/share/zsh/vendor-completions/_tally",
	"completions/tally.fish": "usr/share/fish/vendor_completions.d/tally.fish",
}

// deb makes a Debian package, format 2.0 (deb(5)): an ar of a version, the control
// files and the contents. The programs are static, so it depends on nothing.
func deb(in Input, b Build) ([]byte, error) {
	var files []file
	for _, name := range slices.Sorted(maps.Keys(b.Programs)) {
		files = append(files, file{"usr/bin/" + name, 0o755, b.Programs[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(in.Shared)) {
		if place := debPlaces[name]; place != "" {
			files = append(files, file{place, 0o644, in.Shared[name]})
		}
	}
	var md5sums []byte // dpkg --verify compares with these; they are no protection
	size := 0
	for _, f := range files {
		md5sums = fmt.Appendf(md5sums, "%x  %s\n", md5.Sum(f.data), f.name)
		size += len(f.data)
	}
	control := fmt.Sprintf(`Package: tallystick
Version: %s
Architecture: %s
Maintainer: Tallystick contributors <nobody@tallystick.invalid>
Installed-Size: %d
Section: devel
Priority: optional
Description: evaluate AI agents and leave scores that can be proved
 Drives an agent through a bench, records every step, and keeps what came out
 in a ledger that anyone can check offline and no one can quietly change.
`, debVersion(in.Version), b.Platform.Arch, (size+1023)/1024)
	about, err := tarball(in.Time, "", []file{{"control", 0o644, []byte(control)}, {"md5sums", 0o644, md5sums}})
	if err != nil {
		return nil, err
	}
	data, err := tarball(in.Time, "", files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, member := range []file{{"debian-binary", 0o100644, []byte("2.0\n")}, {"control.tar.gz", 0o100644, about}, {"data.tar.gz", 0o100644, data}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", member.name, in.Time.Unix(), 0, 0, member.mode, len(member.data))
		out.Write(member.data)
		if len(member.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes(), nil
}

// debVersion is a version that dpkg takes: it begins with a digit.
func debVersion(version string) string {
	v := strings.ReplaceAll(strings.TrimPrefix(version, "v"), "-", "~")
	if v == "" || v[0] < '0' || v[0] > '9' {
		return "0~" + v
	}
	return v
}
