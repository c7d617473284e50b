package program

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
)

// A rule says when a call of a function is a finding.
type rule struct {
	id  string
	how how
	arg int  // the argument that counts
	one bool // it is the only one that does
	// repeats says that the program's name comes a second time, as its first
	// argument.
	repeats bool
	// Of flagSet: the option and the value that make it one.
	flag, value string
}

type how uint8

const (
	_            how = iota
	always           // whatever it is called with, and if it is only named
	called           // whatever it is called with
	shellText        // the argument is a command: it must be constant
	programArgs      // a program with its arguments: the program must be fixed
	moduleText       // the argument names a module
	textOnly         // only if the argument is a text: a function is not
	notConstant      // the argument must be constant
	unsafeLoader     // unless a safe loader is named
	flagSet          // if an option is set
	workerText       // the argument must be constant, and an option not set
	defines          // a type that is filled in: exec.Cmd{Path: …}; Function in JavaScript
)

// rulesOf makes a table of names with the same rule.
func rulesOf(into map[string]rule, r rule, names string) {
	for _, n := range strings.Fields(names) {
		into[n] = r
	}
}

var pythonRules = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "eval", how: always}, "eval")
	rulesOf(m, rule{id: "exec", how: always}, "exec execfile")
	rulesOf(m, rule{id: "compile", how: always}, "compile codeop.compile_command")
	rulesOf(m, rule{id: "run-file", how: always}, "runpy.run_path runpy.run_module runpy._run_code runpy._run_module_code")
	rulesOf(m, rule{id: "interpreter", how: called}, "code.interact code.InteractiveInterpreter code.InteractiveConsole code.compile_command IPython.embed IPython.start_ipython")
	rulesOf(m, rule{id: "code-object", how: called}, "types.FunctionType types.CodeType types.LambdaType")
	rulesOf(m, rule{id: "load-module", how: called}, "imp.load_source imp.load_module imp.load_compiled importlib.machinery.SourceFileLoader importlib.machinery.SourcelessFileLoader importlib.machinery.ExtensionFileLoader importlib.util.module_from_spec zipimport.zipimporter")
	rulesOf(m, rule{id: "dynamic-import", how: moduleText}, "__import__ importlib.import_module importlib.__import__ pkgutil.resolve_name pydoc.locate")
	rulesOf(m, rule{id: "unpickle", how: called}, `pickle.loads pickle.load pickle.Unpickler cPickle.loads cPickle.load _pickle.loads _pickle.load
		dill.loads dill.load dill.load_session cloudpickle.loads cloudpickle.load marshal.loads marshal.load shelve.open shelve.DbfilenameShelf joblib.load
		jsonpickle.decode pandas.read_pickle klepto.archives.file_archive`)
	rulesOf(m, rule{id: "unpickle", how: flagSet, flag: "allow_pickle", value: "True"}, "numpy.load")
	rulesOf(m, rule{id: "unpickle", how: flagSet, flag: "weights_only", value: "False"}, "torch.load")
	rulesOf(m, rule{id: "unsafe-yaml", how: unsafeLoader}, "yaml.load yaml.load_all")
	rulesOf(m, rule{id: "unsafe-yaml", how: called}, "yaml.unsafe_load yaml.unsafe_load_all yaml.full_load yaml.full_load_all")
	rulesOf(m, rule{id: "load-module", how: notConstant, arg: 1}, "importlib.util.spec_from_file_location")
	rulesOf(m, rule{id: "exec-nonliteral", how: shellText}, "os.system os.popen posix.system nt.system subprocess.getoutput subprocess.getstatusoutput commands.getoutput commands.getstatusoutput popen2.popen2 asyncio.create_subprocess_shell pexpect.run pexpect.runu invoke.run anyio.run_process")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, one: true}, "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen pexpect.spawn pty.spawn")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs}, "asyncio.create_subprocess_exec")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, repeats: true}, "os.execl os.execle os.execlp os.execlpe os.execv os.execve os.execvp os.execvpe os.posix_spawn os.posix_spawnp")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, one: true}, "os.startfile")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, arg: 1, repeats: true}, "os.spawnl os.spawnle os.spawnlp os.spawnv os.spawnve os.spawnvp os.spawnvpe")
	rulesOf(m, rule{id: "eval", how: notConstant}, "cProfile.run profile.run pdb.run pdb.runeval bdb.run trace.run")
	rulesOf(m, rule{id: "eval", how: textOnly}, "timeit.timeit timeit.repeat timeit.Timer timeit.default_timer")
	rulesOf(m, rule{id: "machine-code", how: notConstant}, "ctypes.CDLL ctypes.PyDLL ctypes.WinDLL ctypes.OleDLL ctypes.cdll.LoadLibrary cffi.FFI.dlopen")
	rulesOf(m, rule{id: "machine-code", how: called}, "library.system library.popen library.execv library.execve library.execl library.execvp library.dlopen library.PyRun_SimpleString library.PyRun_String ctypes.pythonapi.PyRun_SimpleString ctypes.pythonapi.PyRun_SimpleStringFlags ctypes.pythonapi.PyRun_String ctypes.pythonapi.Py_CompileString")
	return m
})

var pythonMethods = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "load-module", how: called}, "exec_module load_module load_source")
	rulesOf(m, rule{id: "interpreter", how: called}, "runsource runcode run_cell run_cell_magic")
	rulesOf(m, rule{id: "introspection", how: called}, "all__subclasses__")
	rulesOf(m, rule{id: "machine-code", how: called}, "PyRun_SimpleString PyRun_SimpleStringFlags")
	return m
})

var javascriptRules = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "eval", how: always}, "eval execScript")
	rulesOf(m, rule{id: "new-function", how: defines}, "Function AsyncFunction GeneratorFunction AsyncGeneratorFunction")
	rulesOf(m, rule{id: "vm-run", how: called}, "vm.runInThisContext vm.runInNewContext vm.runInContext vm.compileFunction vm.Script vm.SourceTextModule vm2.VM vm2.NodeVM vm2.VMScript isolated-vm.Isolate repl.start")
	rulesOf(m, rule{id: "eval", how: textOnly}, "setTimeout setInterval setImmediate requestAnimationFrame")
	rulesOf(m, rule{id: "eval", how: workerText, flag: "eval"}, "Worker worker_threads.Worker SharedWorker")
	rulesOf(m, rule{id: "exec-nonliteral", how: called}, "Deno.run process.binding process._linkedBinding")
	rulesOf(m, rule{id: "dynamic-import", how: moduleText}, "import require importScripts module._load Module._load")
	rulesOf(m, rule{id: "exec-nonliteral", how: shellText}, "exec execSync child_process.exec child_process.execSync shelljs.exec execaCommand execaCommandSync execa.command execa.execaCommand execa.execaCommandSync Bun.$ zx.$")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs}, `spawn spawnSync execFile execFileSync child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync
		child_process.fork fork execa execa.execa execaSync execa.execaSync cross-spawn cross-spawn.sync Bun.spawn Bun.spawnSync Deno.Command nano-spawn`)
	return m
})

var javascriptMethods = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "vm-run", how: called}, "runInThisContext runInNewContext runInContext compileFunction _compile")
	rulesOf(m, rule{id: "eval", how: called}, "globalEval")
	return m
})

var goRules = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs}, "exec.Command")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, repeats: true}, "syscall.Exec syscall.ForkExec syscall.StartProcess os.StartProcess")
	rulesOf(m, rule{id: "exec-nonliteral", how: programArgs, arg: 1}, "exec.CommandContext")
	rulesOf(m, rule{id: "exec-nonliteral", how: defines}, "exec.Cmd")
	rulesOf(m, rule{id: "plugin", how: notConstant}, "plugin.Open")
	rulesOf(m, rule{id: "interpreter", how: called}, "interp.New yaegi.New otto.New otto.Run goja.New goja.RunString goja.Compile lua.NewState starlark.ExecFile starlark.ExecFileOptions starlark.Eval starlark.EvalOptions tengo.NewScript tengo.Eval vm.Execute gval.Evaluate")
	return m
})

var goMethods = sync.OnceValue(func() map[string]rule {
	m := map[string]rule{}
	rulesOf(m, rule{id: "interpreter", how: called}, "EvalPath EvalWithContext DoString RunString RunScript")
	return m
})

// constants are names whose value is fixed wherever the program runs: this
// program itself, its folder, its interpreter.
var constants = sync.OnceValue(func() map[*Language]map[string]string {
	return map[*Language]map[string]string{
		python:     {"None": "None", "__file__": "./main.py", "__name__": "__main__", "sys.executable": "python3", "os.sep": "/", "os.path.sep": "/", "os.curdir": ".", "os.pardir": "..", "string.ascii_lowercase": "abcdefghijklmnopqrstuvwxyz"},
		javascript: {"__dirname": ".", "__filename": "./main.js", "process.execPath": "node", "path.sep": "/", "import.meta.url": "./main.js", "import.meta.dirname": ".", "process.platform": "linux"},
		golang:     {"filepath.Separator": "/", "os.PathSeparator": "/"},
	}
})

// A foldKind is how the value of a call follows from its arguments.
type foldKind uint8

const (
	_ foldKind = iota
	foldFirst
	foldEnv
	foldPath
	foldJoin
	foldChr
	foldBytes
	foldMapChr
	foldReversed
	foldBase64
	foldBase32
	foldHex
	foldURL
	foldCodec
	foldFormat
	foldModule
	foldNames
	foldGetattr
	foldAttrgetter
	foldApply
	foldPrototype
)

func foldsOf(rows ...any) map[string]foldKind {
	m := map[string]foldKind{}
	for i := 0; i+1 < len(rows); i += 2 {
		for _, n := range strings.Fields(rows[i+1].(string)) {
			m[n] = rows[i].(foldKind)
		}
	}
	return m
}

var folds = sync.OnceValue(func() map[*Language]map[string]foldKind {
	return map[*Language]map[string]foldKind{
		python: foldsOf(
			foldFirst, "ctypes.util.find_library find_library str list tuple os.fspath os.path.expanduser os.path.expandvars os.path.abspath os.path.realpath os.path.normpath shutil.which functools.partial partial staticmethod classmethod shlex.quote open io.open bytes.decode asyncio.coroutine functools.cache functools.wraps",
			foldBytes, "bytes bytearray",
			foldEnv, "os.getenv os.environb os.environ.get",
			foldPath, "os.path.join posixpath.join pathlib.Path pathlib.PurePath pathlib.PosixPath Path PurePath ntpath.join",
			foldChr, "chr", foldMapChr, "map", foldReversed, "reversed",
			foldBase64, "base64.b64decode base64.standard_b64decode base64.urlsafe_b64decode base64.decodebytes binascii.a2b_base64 b64decode",
			foldBase32, "base64.b32decode", foldHex, "bytes.fromhex bytearray.fromhex binascii.unhexlify binascii.a2b_hex base64.b16decode unhexlify",
			foldURL, "urllib.parse.unquote urllib.parse.unquote_plus urllib.unquote unquote", foldCodec, "codecs.decode codecs.getdecoder",
			foldModule, "__import__ importlib.import_module importlib.__import__", foldNames, "globals locals vars",
			foldGetattr, "getattr inspect.getattr_static object.__getattribute__", foldAttrgetter, "operator.attrgetter operator.methodcaller attrgetter methodcaller"),
		javascript: foldsOf(
			foldFirst, "String promisify util.promisify Symbol.for fileURLToPath url.fileURLToPath URL pathToFileURL url.pathToFileURL path.normalize String.raw Array.from Promise.resolve Object.values readFileSync fs.readFileSync",
			foldPath, "path.join path.resolve join resolve path.posix.join", foldChr, "String.fromCharCode String.fromCodePoint",
			foldBase64, "atob window.atob", foldCodec, "Buffer.from", foldURL, "decodeURIComponent decodeURI unescape",
			foldModule, "require import createRequire module.require process.mainModule.require", foldGetattr, "Reflect.get",
			foldApply, "Reflect.apply Reflect.construct", foldPrototype, "Object.getPrototypeOf Reflect.getPrototypeOf"),
		golang: foldsOf(
			foldBytes, "string",
			foldFirst, "strings.TrimSpace strings.ToLower filepath.Clean path.Clean filepath.FromSlash exec.LookPath filepath.Abs strings.Clone",
			foldEnv, "os.Getenv os.LookupEnv", foldPath, "filepath.Join path.Join", foldJoin, "strings.Join", foldFormat, "fmt.Sprintf",
			foldBase64, "base64.StdEncoding.DecodeString base64.URLEncoding.DecodeString base64.RawStdEncoding.DecodeString base64.RawURLEncoding.DecodeString",
			foldHex, "hex.DecodeString", foldURL, "url.QueryUnescape url.PathUnescape"),
	}
})

// canonical is the name under which the tables have something: of the names that
// a module has, one.
func canonical(l *Language, name string) string {
	root, rest, dotted := cutDot(name)
	if short, ok := otherNames()[l][root]; ok {
		root = short
	}
	if l == python && root == "builtins" && dotted {
		return rest
	}
	if l == javascript {
		root = moduleName(root)
	}
	if !dotted {
		return root
	}
	return root + "." + rest
}

var otherNames = sync.OnceValue(func() map[*Language]map[string]string {
	return map[*Language]map[string]string{
		python:     {"__builtins__": "builtins", "__builtin__": "builtins", "np": "numpy", "pd": "pandas", "sp": "subprocess", "posix": "os", "nt": "os", "cPickle": "pickle", "_pickle": "pickle", "commands": "subprocess"},
		golang:     {"unix": "syscall", "windows": "syscall"},
		javascript: {"cp": "child_process", "childProcess": "child_process", "child_process_1": "child_process", "shell": "shelljs"},
	}
})

func moduleName(s string) string { return strings.TrimPrefix(s, "node:") }

// goModule is the name of a package as the tables have it: of those that they
// have, the last part of its path.
func goModule(importPath string) string {
	switch importPath {
	case "golang.org/x/sys/unix", "golang.org/x/sys/windows":
		return "syscall"
	case "os/exec", "path/filepath", "encoding/base64", "encoding/hex", "net/url":
		return importPath[strings.LastIndexByte(importPath, '/')+1:]
	}
	for _, known := range []string{"/yaegi/interp", "/robertkrimen/otto", "/dop251/goja", "/starlark", "/d5/tengo", "/mattn/anko/vm", "/gval"} {
		if strings.HasSuffix(importPath, known) || strings.Contains(importPath, known+"/") {
			return strings.TrimPrefix(known[strings.LastIndexByte(known, '/'):], "/")
		}
	}
	if strings.HasSuffix(importPath, "gopher-lua") {
		return "lua"
	}
	return importPath
}

// An interpreter is a program that runs a text or a file.
type interpreter struct {
	language *Language // nil if it is not read
	flags    []string  // behind which a text stands
	short    string    // letters of flags that may stand together: -ec
	modules  []string  // behind which a module stands
	file     bool      // its first argument is a file that it runs
}

// isCode reports whether a text to run stands behind a flag, or in it.
func (in interpreter) isCode(flag string) bool {
	if slices.Contains(in.flags, flag) {
		return true
	}
	if len(flag) < 2 || flag[1] == '-' || in.short == "" {
		return false
	}
	return strings.ContainsAny(flag[1:min(len(flag), 6)], in.short) && isLetters(flag[1:min(len(flag), 3)])
}

func isLetters(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i]|0x20 < 'a' || s[i]|0x20 > 'z' {
			return i > 0
		}
	}
	return true
}

// attached is the text that stands in the flag itself: -c'print(1)'.
func (in interpreter) attached(flag string) string {
	if in.language == shell || len(flag) < 3 || flag[1] == '-' {
		return ""
	}
	i := strings.IndexAny(flag, in.short)
	if i < 0 || i+1 >= len(flag) {
		return ""
	}
	rest := flag[i+1:]
	if isLetters(rest) && len(rest) < 3 {
		return ""
	}
	return rest
}

var shells = []string{"sh", "bash", "zsh", "ksh", "dash", "ash", "rbash", "fish"}

var interpreters = sync.OnceValue(func() map[string]interpreter {
	m := map[string]interpreter{}
	for _, s := range shells {
		m[s] = interpreter{language: shell, flags: []string{"-c", "--command"}, short: "c", file: true}
	}
	for _, s := range []string{"python", "pypy", "ipython", "python.exe"} {
		m[s] = interpreter{language: python, flags: []string{"-c"}, short: "c", modules: []string{"-m"}, file: true}
	}
	for _, s := range []string{"node", "nodejs", "bun", "deno", "tsx", "ts-node"} {
		m[s] = interpreter{language: javascript, flags: []string{"-e", "--eval", "-p", "--print", "-pe", "eval"}, short: "ep", file: true}
	}
	m["perl"] = interpreter{flags: []string{"-e", "-E"}, short: "eE", file: true}
	m["ruby"] = interpreter{flags: []string{"-e"}, short: "e", file: true}
	m["php"] = interpreter{flags: []string{"-r"}, short: "r", file: true}
	m["lua"] = interpreter{flags: []string{"-e"}, short: "e", file: true}
	m["osascript"] = interpreter{flags: []string{"-e"}, short: "e", file: true}
	m["Rscript"] = interpreter{flags: []string{"-e"}, short: "e", file: true}
	m["pwsh"] = interpreter{flags: []string{"-c", "-Command", "-EncodedCommand", "-enc"}, short: "", file: true}
	m["powershell"] = m["pwsh"]
	m["expect"] = interpreter{flags: []string{"-c"}, short: "c", file: true}
	m["cmd"] = interpreter{flags: []string{"/C", "/c", "/K"}}
	m["cmd.exe"] = m["cmd"]
	m["tclsh"] = interpreter{file: true}
	return m
})

// carriers run the program that their arguments name.
var carriers = sync.OnceValue(func() map[string]bool {
	return setOf("env sudo doas su nohup time nice ionice timeout setsid stdbuf xargs busybox docker podman kubectl ssh nsenter chroot unshare flock script watch parallel find command builtin exec strace ltrace bwrap firejail runuser")
})

// RulesText states the tables, a line each.
func RulesText() string {
	var b strings.Builder
	for _, l := range Languages {
		for _, m := range []struct {
			what string
			list map[string]rule
		}{{"call", l.rules()}, {"method", l.methods()}} {
			names := make([]string, 0, len(m.list))
			for n := range m.list {
				names = append(names, n)
			}
			sort.Strings(names)
			for _, n := range names {
				fmt.Fprintf(&b, "dynamic %s %s %s %+v\n", l.Name, m.what, n, m.list[n])
			}
		}
		names := make([]string, 0, len(folds()[l]))
		for n, how := range folds()[l] {
			names = append(names, fmt.Sprintf("%s=%d", n, how))
		}
		sort.Strings(names)
		fmt.Fprintf(&b, "constant calls %s %s\n", l.Name, strings.Join(names, " "))
	}
	fmt.Fprintf(&b, "shells %q; interpreters %d; depth %d of programs, %d of expressions\n", shells, len(interpreters()), maxNested, maxDepth)
	return b.String()
}

// noRules are those of a language whose commands are programs.
func noRules() map[string]rule { return nil }
