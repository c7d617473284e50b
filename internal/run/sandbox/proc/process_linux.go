// Package proc reads what the kernel tells of processes, file systems and
// folders: what they hold in memory and on disk, and whether they still are.
//
// A caller may rely on that nothing is changed and nothing waited for, and that
// whatever went away meanwhile counts as nothing: a process that has ended holds
// no memory, a folder that cannot be read no bytes. So every figure is one of a
// moment that may be over.
package proc

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// EachLine calls f with each line of a file.
func EachLine(file string, f func(string)) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	s := bufio.NewScanner(in)
	for s.Scan() {
		f(s.Text())
	}
	return s.Err()
}

// ResidentBytes is what a process has in memory. A page that it shares counts
// whole.
func ResidentBytes(pid int) int64 {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// SharedOutBytes is a process's proportional share.
func SharedOutBytes(pid int) int64 {
	share := ResidentBytes(pid) // if the kernel will not tell
	EachLine(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"), func(line string) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64); err == nil {
				share = n << 10
			}
		}
	})
	return share
}

// Descendants lists the processes below pid that the kernel knows now.
func Descendants(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), Descendants(child)...)
			}
		}
	}
	return all
}

// Gone reports whether a process has ended; a zombie that was not reaped yet
// has.
func Gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}
