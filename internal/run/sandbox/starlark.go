package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// How the interpreter ends. It is our own program, so its statuses can be
// believed: the rubric has no way to choose one.
const (
	starlarkFailed   = 1
	starlarkNoMemory = 3
	starlarkNoSteps  = 4
)

// maxSteps bounds the interpreter's work in a way that does not depend on how
// fast the machine is: about ten to twenty seconds of pure computation.
const maxSteps = 1 << 30

// starlarkDialect is standard Starlark with sets, while loops and top-level
// control flow. Recursion stays forbidden: it would end in Go's stack limit.
var starlarkDialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}

// starlarkMain interprets the rubric in os.Args[1] and prints its score. It
// runs inside the sandbox.
func starlarkMain() {
	limit, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "memory limit:", err)
		os.Exit(starlarkFailed)
	}
	debug.SetMemoryLimit(limit)
	go watchHeap(limit)
	input, err := io.ReadAll(os.Stdin)
	if err == nil {
		var answer []byte
		answer, err = interpret(os.Args[1], os.ReadFile, input)
		if err == nil {
			_, err = os.Stdout.Write(answer)
		}
	}
	if err == nil {
		os.Exit(0)
	}
	var evalErr *starlark.EvalError
	if errors.As(err, &evalErr) {
		fmt.Fprintln(os.Stderr, evalErr.Backtrace())
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if strings.Contains(err.Error(), "too many steps") {
		os.Exit(starlarkNoSteps)
	}
	os.Exit(starlarkFailed)
}

// watchHeap ends the process when its heap passes the limit. The limits
// around the sandbox hold as well; this one makes the end a clear one.
func watchHeap(limit int64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		metrics.Read(sample)
		if sample[0].Value.Uint64() > uint64(limit) {
			fmt.Fprintln(os.Stderr, "out of memory")
			os.Exit(starlarkNoMemory)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// An entry is the function of a script that is called, and the members of the input
// that are its arguments.
type entry struct {
	function string
	args     []string
}

// entryOf is that of a script by the name of its main file: the script of a simulated
// user replies, and every other one scores.
func entryOf(main string) entry {
	if path.Base(main) == UserMain {
		return entry{"reply", []string{"state", "message"}}
	}
	return entry{"score", []string{"harness_output", "expected", "case_metadata"}}
}

// interpret runs the script's function on the input, both JSON.
func interpret(main string, read func(string) ([]byte, error), input []byte) ([]byte, error) {
	thread := &starlark.Thread{
		Name:  "rubric",
		Print: func(_ *starlark.Thread, msg string) { fmt.Fprintln(os.Stderr, msg) },
		Load:  loader(path.Dir(main), read),
	}
	thread.SetMaxExecutionSteps(maxSteps)
	globals, err := execFile(thread, main, read)
	if err != nil {
		return nil, err
	}
	entry := entryOf(main)
	called, ok := globals[entry.function].(starlark.Callable)
	if !ok {
		return nil, fmt.Errorf("%s: defines no function %s(%s)", path.Base(main), entry.function, strings.Join(entry.args, ", "))
	}
	decoded, err := starlark.Call(thread, json.Module.Members["decode"], starlark.Tuple{starlark.String(input)}, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding the input: %w", err)
	}
	dict, ok := decoded.(*starlark.Dict)
	if !ok {
		return nil, fmt.Errorf("decoding the input: it is a %s, not an object", decoded.Type())
	}
	var args starlark.Tuple
	for _, name := range entry.args {
		v, found, err := dict.Get(starlark.String(name))
		if err != nil {
			return nil, err
		}
		if !found {
			v = starlark.None
		}
		args = append(args, v)
	}
	result, err := starlark.Call(thread, called, args, nil)
	if err != nil {
		return nil, err
	}
	encoded, err := starlark.Call(thread, json.Module.Members["encode"], starlark.Tuple{result}, nil)
	if err != nil {
		return nil, fmt.Errorf("encoding what it gave: %w", err)
	}
	return append([]byte(encoded.(starlark.String)), '\n'), nil
}

func execFile(thread *starlark.Thread, file string, read func(string) ([]byte, error)) (starlark.StringDict, error) {
	src, err := read(file)
	if err != nil {
		return nil, err
	}
	predeclared := starlark.StringDict{"json": json.Module, "math": math.Module}
	return starlark.ExecFileOptions(starlarkDialect, thread, path.Base(file), src, predeclared)
}

// loader gives load("helper.star", ...) the files beside the rubric, each
// executed once. A cycle is refused.
func loader(dir string, read func(string) ([]byte, error)) func(*starlark.Thread, string) (starlark.StringDict, error) {
	type module struct {
		globals starlark.StringDict
		err     error
	}
	modules := map[string]*module{}
	return func(thread *starlark.Thread, name string) (starlark.StringDict, error) {
		if !path.IsAbs(name) && path.Clean(name) == name && !strings.HasPrefix(name, "..") {
			m, seen := modules[name]
			if seen && m == nil {
				return nil, fmt.Errorf("loading %s: it loads itself", name)
			}
			if !seen {
				modules[name] = nil
				globals, err := execFile(thread, path.Join(dir, name), read)
				m = &module{globals, err}
				modules[name] = m
			}
			return m.globals, m.err
		}
		return nil, fmt.Errorf("loading %q: only files beside the rubric can be loaded", name)
	}
}
