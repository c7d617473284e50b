// Package runsc is gVisor's command line, linked into this program.
//
// gVisor starts its kernel and its file server by running /proc/self/exe
// again under names of its own, with an empty environment. [Asked] recognises
// those names and [Main] hands over to gVisor; neither may be called later
// than the first statement of main, because gVisor owns the flags of such a
// process.
//
// Only the commands that package sandbox uses are linked: gVisor's own main
// would bring a 47 MB checkpoint helper with it.
package runsc

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"
)

// Name is the argv[0] under which a program that links this package must be
// started to be gVisor.
const Name = "runsc"

// Asked reports whether this process was started to be a part of gVisor.
func Asked() bool {
	name := os.Args[0]
	return name == "/proc/self/exe" || strings.HasPrefix(filepath.Base(name), Name)
}

// Main runs the gVisor command in os.Args and exits with its status.
func Main() {
	easeGarbage()
	if slices.Contains(os.Args, new(sentrycmd.Boot).Name()) { // the kernel itself
		guard()
	}
	cli.Run(nil, map[util.SubCommand]string{
		new(cmd.Run):          "",
		new(cmd.Exec):         "",
		new(cmd.Kill):         "",
		new(cmd.Delete):       "",
		new(cmd.State):        "",
		new(sentrycmd.Boot):   "internal",
		new(cmd.Gofer):        "internal",
		new(sentrycmd.Umount): "internal",
	}, nil)
	os.Exit(0)
}

// youth is how long a process of gVisor may leave its garbage lying. Most are
// gone by then: collecting what the start leaves took a tenth of the processor
// time of a short run.
const youth = 2 * time.Second

// easeGarbage lets the heap grow for a while, from the runtime's minimum of
// 4 MiB to 32, and then has it collected as usual.
func easeGarbage() {
	usual := debug.SetGCPercent(800)
	time.AfterFunc(youth, func() { debug.SetGCPercent(usual) })
}
