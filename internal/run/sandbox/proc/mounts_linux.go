package proc

import "strings"

// A Mount is a line of a process's mount table.
type Mount struct {
	Device string // major:minor
	Root   string // what of the file system is mounted
	At     string // where
	Type   string // of the file system
}

// Mounts reads the mount table of this process. A later line at or above a path
// covers an earlier one.
func Mounts() ([]Mount, error) {
	var table []Mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	err := EachLine("/proc/self/mountinfo", func(line string) {
		first, second, _ := strings.Cut(line, " - ")
		f, kind := strings.Fields(first), strings.Fields(second)
		if len(f) > 5 && len(kind) > 0 {
			table = append(table, Mount{f[2], unescape.Replace(f[3]), unescape.Replace(f[4]), kind[0]})
		}
	})
	return table, err
}
