// Command pack makes the files of a release from built programs; .ci/release calls
// it. It is not part of what is released.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/app/release"
	"tallystick/internal/record/store"
)

func main() {
	version := flag.String("version", "", "version of the release")
	epoch := flag.Int64("epoch", 0, "time of every file, in seconds since 1970")
	programs := flag.String("programs", "", "folder with a folder OS_ARCH of programs for each platform")
	shared := flag.String("shared", "", "folder with what every archive has besides")
	out := flag.String("out", "", "folder to write to")
	flag.Parse()
	if err := pack(release.Input{Version: *version, Time: time.Unix(*epoch, 0).UTC()}, *programs, *shared, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(in release.Input, programs, shared, out string) error {
	platforms, err := os.ReadDir(programs)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		system, arch, ok := strings.Cut(p.Name(), "_")
		if !ok {
			return fmt.Errorf("%s: expected OS_ARCH", p.Name())
		}
		files, err := read(filepath.Join(programs, p.Name()))
		if err != nil {
			return err
		}
		in.Builds = append(in.Builds, release.Build{Platform: release.Platform{OS: system, Arch: arch}, Programs: files})
	}
	if in.Shared, err = read(shared); err != nil {
		return err
	}
	files, err := release.Files(in)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := store.WriteFile(store.OS{}, filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// read reads a folder, by path within it.
func read(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(name)
		return err
	})
}
