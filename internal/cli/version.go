package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker in a release build:
//
//	go build -ldflags "-X tallystick/internal/cli.version=v1.2.3 -X tallystick/internal/cli.commit=..."
var version, commit string

type versionOptions struct{}

func newVersion(env *Env) *cobra.Command {
	var o versionOptions
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the Go release it was built with",
		Example: "tally version --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVersion(cmd.Context(), env, o)
		},
	}
}

func runVersion(_ context.Context, env *Env, _ versionOptions) error {
	v := thisBuild()
	return env.Answer(v, func(w io.Writer) { io.WriteString(w, versionLine(v)) })
}

// versionLine is what "tally version" prints; that of tally-fleet says the same.
func versionLine(v build) string {
	return fmt.Sprintf("tally %s (commit %s, %s)\n", v.Version, v.Commit, v.Go)
}

// thisBuild says which program is running.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return describeBuild(version, commit, info)
}

// A build says which program this is.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Harness is the program's name in records. A build without a version is named by
// its commit, with "+modified" if the tree had changes that no commit holds; one
// that was built without either says only devel.
func (b build) Harness() string {
	if b.Version != "devel" || b.Commit == "unknown" {
		return b.Version
	}
	return b.Version + "+" + b.Commit
}

// describeBuild prefers what the linker was told and falls back to what the Go
// tool recorded. Both are claims of the builder of the binary, not proof.
func describeBuild(version, commit string, info *debug.BuildInfo) build {
	b := build{Version: version, Commit: commit, Go: runtime.Version()}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	if b.Commit == "" {
		b.Commit = recordedCommit(info)
	}
	return b
}

// recordedCommit is the commit that the Go tool stamped into the binary, marked
// when the tree had changes that no commit holds.
func recordedCommit(info *debug.BuildInfo) string {
	commit, modified := "unknown", false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified {
		commit += "+modified"
	}
	return commit
}
