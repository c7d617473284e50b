package program

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

type valueKind uint8

const (
	other    valueKind = iota
	str                // a text, with holes
	integer            //
	sequence           // a list of values
	named              // what a name stands for: a function, a module
	method             // a function of a constant
	space              // a table of names: builtins.__dict__, sys.modules, os.environ
)

// A value is what is known of an expression.
type value struct {
	kind valueKind
	s    string // the text, or the full name
	n    int64
	list []value
	base *value // of a method

	last   string // of an unknown value, the member it was taken from
	round  bool   // it was looked up by a text, and not named
	alias  bool   // it is the value of a name
	called bool   // it is what a call gave
	made   bool   // behind new
	fn     bool   // it is a function that stands here
	mixed  bool   // an addition with a text in it
}

var unknown value

// dynamicName is the member of a value that was looked up by a name that is not
// constant.
const dynamicName = "\x00name"

func constant(s string) value { return value{kind: str, s: s} }

func numeric(s string) value {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64)
	if err != nil {
		return unknown
	}
	return value{kind: integer, n: n}
}

// isConstant reports whether all of a value is known.
func (v value) isConstant() bool {
	switch v.kind {
	case str:
		return !strings.ContainsRune(v.s, Hole)
	case integer:
		return true
	case sequence:
		return !slices.ContainsFunc(v.list, func(w value) bool { return !w.isConstant() })
	}
	return false
}

func add(v, w value) value {
	if v.kind == integer && w.kind == integer {
		return value{kind: integer, n: v.n + w.n}
	}
	if v.kind == sequence || w.kind == sequence {
		return value{kind: sequence, list: append(elementsOf(v), elementsOf(w)...)}
	}
	if v.kind != str && w.kind != str {
		return unknown
	}
	s := textOf(v) + textOf(w)
	if len(s) > 1<<16 {
		return unknown
	}
	return value{kind: str, s: s, mixed: true}
}

func elementsOf(v value) []value {
	if v.kind == sequence {
		return slices.Clone(v.list)
	}
	return []value{unknown}
}

// textOf is a value in a text: a hole if it is not known.
func textOf(v value) string {
	switch v.kind {
	case str:
		return v.s
	case integer:
		return strconv.FormatInt(v.n, 10)
	}
	return string(Hole)
}

func characters(v value) value {
	if v.kind == str {
		return v
	}
	if v.kind != sequence {
		return unknown
	}
	out := value{kind: sequence}
	for _, w := range v.list {
		if w.kind != integer || w.n <= 0 || w.n > utf8.MaxRune {
			return unknown
		}
		out.list = append(out.list, constant(string(rune(w.n))))
	}
	return out
}

// joined puts the elements of a list together.
func joined(v value, sep string) value {
	if v.kind == str {
		if sep == "" {
			return v
		}
		return constant(strings.Join(strings.Split(v.s, ""), sep))
	}
	if v.kind != sequence {
		return constant(string(Hole))
	}
	parts := make([]string, len(v.list))
	for i, w := range v.list {
		parts[i] = textOf(w)
	}
	return constant(strings.Join(parts, sep))
}

func reversed(v value) value {
	switch v.kind {
	case str:
		r := []rune(v.s)
		slices.Reverse(r)
		return constant(string(r))
	case sequence:
		l := slices.Clone(v.list)
		slices.Reverse(l)
		return value{kind: sequence, list: l}
	}
	return unknown
}

// joinPath joins the parts of a path. An absolute part begins it anew, as
// os.path.join has it.
func joinPath(list []value) value {
	var parts []string
	for _, v := range list {
		s := textOf(v)
		if v.kind == sequence {
			s = joined(v, "/").s
		}
		if strings.HasPrefix(s, "/") {
			parts = nil
		}
		if s != "" {
			parts = append(parts, strings.TrimSuffix(s, "/"))
		}
	}
	return constant(strings.Join(parts, "/"))
}

// formatted is "%s/%s" % (a, b), and "{}/{}".format(a, b).
func formatted(format string, w value) value {
	args := []value{w}
	if w.kind == sequence {
		args = w.list
	}
	var b strings.Builder
	next := 0
	take := func() string {
		next++
		if next <= len(args) {
			return textOf(args[next-1])
		}
		return string(Hole)
	}
	for i := 0; i < len(format); i++ {
		switch {
		case format[i] == '%' && i+1 < len(format) && format[i+1] == '%':
			b.WriteByte('%')
			i++
		case format[i] == '%' && i+1 < len(format):
			i++
			for i+1 < len(format) && strings.IndexByte("0123456789.+-# ", format[i]) >= 0 {
				i++
			}
			b.WriteString(take())
		default:
			b.WriteByte(format[i])
		}
	}
	return constant(b.String())
}

func braces(format string, args []value) value {
	var b strings.Builder
	next := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '{' {
			b.WriteByte(format[i])
			continue
		}
		end := strings.IndexByte(format[i:], '}')
		if end < 0 {
			break
		}
		key := format[i+1 : i+end]
		i += end
		n, err := strconv.Atoi(key)
		if key == "" {
			n, err = next, nil
			next++
		}
		if err != nil || n < 0 || n >= len(args) {
			b.WriteByte(Hole)
			continue
		}
		b.WriteString(textOf(args[n]))
	}
	return constant(b.String())
}

// decoded resolves an encoding of a text that is known.
func decoded(v value, encoding string) value {
	if !v.isConstant() || v.kind != str {
		return unknown
	}
	s := v.s
	var out []byte
	var err error
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(encoding)) {
	case "base64", "base64url", "b64":
		s = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(strings.TrimSpace(s), "="))
		out, err = base64.RawStdEncoding.DecodeString(s)
	case "hex", "base16":
		out, err = hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), " ", ""))
	case "base32":
		out, err = base32.StdEncoding.DecodeString(s)
	case "url":
		var t string
		t, err = url.QueryUnescape(s)
		out = []byte(t)
	case "rot13":
		out = []byte(Rot13(s))
	default:
		return v
	}
	if err != nil || !utf8.Valid(out) {
		return unknown
	}
	return constant(strings.ReplaceAll(string(out), string(Hole), ""))
}

// Rot13 turns the letters of a text by half of the alphabet.
func Rot13(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return 'a' + (r-'a'+13)%26
		case 'A' <= r && r <= 'Z':
			return 'A' + (r-'A'+13)%26
		}
		return r
	}, s)
}

// attr is a member of a value.
func (r *reader) attr(v value, name string, at int) value {
	switch v.kind {
	case named:
		return r.member(v, name)
	case str, sequence:
		if r.l == python && v.kind == str && (name == "parent" || name == "name") {
			if name == "parent" {
				return constant(path.Dir(v.s))
			}
			return constant(path.Base(v.s))
		}
		if name == "constructor" {
			return value{last: name}
		}
		if r.writesAfter(at - 1) {
			r.keep(Text{Line: r.list[at].line, Text: v.s, Writes: true})
		}
		return value{kind: method, s: name, base: &v}
	case space:
		if v.s == "env" {
			if r.l == javascript {
				r.env(name, at)
				return unknown
			}
			return value{kind: method, s: name, base: &v}
		}
		return value{kind: method, s: name, base: &v}
	}
	if r.l == javascript && name == "constructor" {
		if v.fn || v.last == "constructor" || v.kind == method {
			r.note(at, "new-function")
		}
	}
	if r.l == python && (name == "__builtins__" || name == "f_builtins" || name == "__globals__" || name == "f_globals") {
		return value{kind: space, s: "builtins", round: true}
	}
	if r.l == python && name == "os" {
		return value{kind: named, s: "os"}
	}
	if r.l == python && name == "__subclasses__" {
		r.note(at, "introspection") // from a base class down to all classes that there are
	}
	return value{last: name, made: v.made, fn: v.fn && (name == "__proto__" || name == "prototype")}
}

func (r *reader) env(name string, at int) {
	if at < len(r.list) {
		r.keep(Text{Line: r.list[at].line, Text: name, Env: true})
	}
}

// globals are the names of the table of all names, in JavaScript.
var globals = sync.OnceValue(func() map[string]bool { return setOf("window globalThis global self top parent frames root") })

func (r *reader) member(v value, name string) value {
	q := v.s
	switch r.l {
	case python:
		switch {
		case q == "builtins" && name == "__dict__" || q == "__builtins__" && name == "__dict__":
			return value{kind: space, s: "builtins", round: true}
		case q == "builtins" && (name == "get" || name == "__getitem__" || name == "__getattribute__"):
			return value{kind: method, s: name, base: &value{kind: space, s: "builtins"}}
		case q == "builtins":
			return value{kind: named, s: name, round: v.round}
		case name == "os" || name == "builtins" || name == "subprocess":
			return value{kind: named, s: name, round: v.round}
		case name == "__dict__":
			return value{kind: space, s: "of", base: &v, round: true}
		case name == "__builtins__" || name == "__globals__":
			return value{kind: space, s: "builtins", round: true}
		case name == "__getattribute__" || name == "__getattr__":
			return value{kind: method, s: name, base: &v}
		case name == "__call__":
			return v
		case name == "__subclasses__" && (q == "object" || strings.HasSuffix(q, ".__base__") || strings.HasSuffix(q, ".__class__") || strings.HasSuffix(q, ".__mro__")):
			return value{last: "all" + name}
		}
	case javascript:
		switch {
		case globals()[q] || q == "document.defaultView" || strings.HasSuffix(q, ".contentWindow"):
			return value{kind: named, s: name, round: v.round}
		case name == "default":
			return v
		case name == "globalThis" || name == "window" && q != "JSDOM":
			return value{kind: named, s: "globalThis"}
		case name == "call" || name == "apply" || name == "bind":
			if _, ok := r.l.rules()[q]; ok {
				return value{kind: method, s: name, base: &v}
			}
		case name == "constructor" && (q == "Function" || strings.HasPrefix(q, "Function.")):
			return value{kind: named, s: "Function", round: true}
		case name == "constructor":
			return value{last: "constructor", made: v.made}
		case name == "process" && globals()[q]:
			return value{kind: named, s: "process"}
		case name == "require":
			return value{kind: named, s: "require", round: v.round}
		}
	}
	if len(q) > 256 {
		return value{last: name}
	}
	full := canonical(r.l, q+"."+name)
	if s, ok := constants()[r.l][full]; ok {
		return constant(s)
	}
	switch full {
	case "os.environ", "process.env":
		return value{kind: space, s: "env"}
	case "sys.modules":
		return value{kind: space, s: "modules", round: true}
	}
	return value{kind: named, s: full, round: v.round, made: v.made}
}

// index is value[key].
func (r *reader) index(v value, open int) value {
	if cut, ok := r.sliceAt(open); ok {
		return cut.of(v)
	}
	args := r.arguments(open)
	if len(args) == 0 {
		return unknown
	}
	key := args[len(args)-1].v // a[0, "eval"] in JavaScript
	switch v.kind {
	case space:
		return r.entry(v, key, open)
	case named:
		if r.l == golang {
			return unknown
		}
		if v.s == "this" && (key.s == "eval" || key.s == "Function") {
			return value{kind: named, s: key.s, round: true}
		}
		if r.l == javascript && globals()[v.s] && key.kind == integer {
			return value{kind: named, s: "globalThis"} // frames[0]
		}
		if !key.isConstant() || key.kind != str {
			if watched()[v.s] || r.l == javascript && globals()[v.s] {
				return value{last: dynamicName}
			}
			return unknown
		}
		w := r.member(v, key.s)
		w.round = w.kind == named
		return w
	case sequence:
		if key.kind == integer && key.n >= 0 && key.n < int64(len(v.list)) {
			return v.list[key.n]
		}
	case str:
		if key.kind == integer {
			if c := []rune(v.s); key.n >= 0 && key.n < int64(len(c)) {
				return constant(string(c[key.n]))
			}
		}
		return constant(string(Hole))
	}
	if key.kind == str && key.isConstant() {
		return r.attr(v, key.s, open)
	}
	return unknown
}

// watched are modules of which a member that is looked up by an unknown name is a
// finding.
var watched = sync.OnceValue(func() map[string]bool { return setOf("builtins os subprocess child_process vm") })

// A slice is [from:to:step] in Python, [from:to] in Go.
type slice struct {
	part [3]int64
	has  [3]bool
}

// sliceAt reads a slice of whole numbers.
func (r *reader) sliceAt(open int) (s slice, ok bool) {
	end := r.matchOf(open)
	k, minus := 0, false
	for i := open + 1; i < end && i < len(r.list) && i < open+9; i++ {
		switch t := r.list[i]; {
		case t.kind == sign && (t.text == ":" || t.text == "::"):
			k += len(t.text)
			ok, minus = true, false
			if k > 2 {
				return s, false
			}
		case t.kind == sign && t.text == "-":
			minus = true
		case t.kind == number:
			v := numeric(t.text)
			if v.kind != integer {
				return s, false
			}
			s.part[k], s.has[k] = v.n, true
			if minus {
				s.part[k] = -v.n
			}
		default:
			return s, false
		}
	}
	return s, ok
}

// of cuts a text or a list.
func (s slice) of(v value) value {
	n := int64(len(v.list))
	runes := []rune(v.s)
	switch v.kind {
	case str:
		n = int64(len(runes))
	case sequence:
	default:
		return unknown
	}
	step := int64(1)
	if s.has[2] {
		step = s.part[2]
	}
	if step == 0 || v.kind == str && strings.ContainsRune(v.s, Hole) && !(!s.has[0] && !s.has[1]) {
		return value{kind: v.kind, s: string(Hole)}
	}
	from, to := int64(0), n
	if step < 0 {
		from, to = n-1, -1
	}
	place := func(k int64) int64 {
		if k < 0 {
			k += n
		}
		return min(max(k, -1), n)
	}
	if s.has[0] {
		from = place(s.part[0])
	}
	if s.has[1] {
		to = place(s.part[1])
	}
	out := value{kind: v.kind}
	for i := from; i >= 0 && i < n && (step > 0 && i < to || step < 0 && i > to); i += step {
		if v.kind == str {
			out.s += string(runes[i])
		} else {
			out.list = append(out.list, v.list[i])
		}
		if len(out.s) > 4096 {
			return unknown
		}
	}
	return out
}

// entry looks a name up in a table of names.
func (r *reader) entry(v, key value, at int) value {
	if v.s == "env" {
		if key.kind == str {
			r.env(key.s, at)
		}
		return unknown
	}
	if key.kind != str || !key.isConstant() {
		if v.s == "builtins" || v.s == "of" && watched()[v.base.s] {
			return value{last: dynamicName}
		}
		return unknown
	}
	switch v.s {
	case "of":
		w := r.member(*v.base, key.s)
		w.round = true
		return w
	case "modules":
		return value{kind: named, s: canonical(r.l, key.s), round: true}
	}
	if key.s == "__builtins__" || key.s == "builtins" || key.s == "__builtin__" {
		return value{kind: named, s: "builtins", round: true}
	}
	return value{kind: named, s: canonical(r.l, key.s), round: true}
}

// callMethod is a call of a function of a constant.
func (r *reader) callMethod(v value, open int) value {
	args := r.arguments(open)
	arg := func(i int) value {
		if i < len(args) {
			return args[i].v
		}
		return unknown
	}
	b := *v.base
	if b.kind == named { // eval.call(null, x), os.__getattribute__("system")
		switch v.s {
		case "bind":
			return b
		case "__getattribute__", "__getattr__":
			return r.entry(value{kind: space, s: "of", base: &b}, arg(0), open)
		}
		if rule, ok := r.l.rules()[b.s]; ok {
			rule.arg++
			r.judge(rule, b, open, open-1)
		}
		return value{called: true}
	}
	if b.kind == space {
		if v.s == "get" || v.s == "__getitem__" || v.s == "pop" || v.s == "setdefault" {
			return r.entry(b, arg(0), open)
		}
		return unknown
	}
	switch v.s {
	case "join":
		if b.kind == sequence || r.l == javascript {
			return joined(b, textOr(arg(0), ""))
		}
		if w, ok := r.comprehension(open); ok {
			return joined(w, b.s)
		}
		return joined(arg(0), b.s)
	case "concat":
		for _, a := range args {
			b = add(b, a.v)
		}
		return b
	case "split":
		if b.kind != str {
			return unknown
		}
		out := value{kind: sequence}
		sep := textOr(arg(0), " ")
		for _, s := range strings.Split(b.s, sep) {
			out.list = append(out.list, constant(s))
		}
		return out
	case "reverse":
		return reversed(b)
	case "replace", "replaceAll":
		if b.kind == str && arg(0).kind == str && arg(1).kind == str {
			return constant(strings.ReplaceAll(b.s, arg(0).s, arg(1).s))
		}
		return constant(string(Hole))
	case "lower", "toLowerCase", "casefold":
		return constant(strings.ToLower(textOf(b)))
	case "upper", "toUpperCase":
		return constant(strings.ToUpper(textOf(b)))
	case "strip", "trim", "lstrip", "rstrip", "encode", "expanduser", "resolve", "absolute", "as_posix", "toString", "valueOf", "values", "slice":
		if v.s == "slice" && len(args) > 0 {
			return constant(string(Hole))
		}
		if v.s == "toString" && arg(0).kind == str {
			return b
		}
		return b
	case "decode":
		return decoded(b, textOr(arg(0), ""))
	case "joinpath":
		list := []value{b}
		for _, a := range args {
			list = append(list, a.v)
		}
		return joinPath(list)
	case "format":
		list := make([]value, len(args))
		for i, a := range args {
			list[i] = a.v
		}
		return braces(b.s, list)
	case "map":
		if b.kind == sequence && arg(0).kind == named && strings.HasPrefix(arg(0).s, "String.from") {
			return characters(b)
		}
	case "with_name", "with_suffix":
		return constant(string(Hole))
	}
	if b.kind == str {
		r.keep(Text{Line: r.list[open].line, Text: b.s, Writes: r.writesAfter(open - 2)})
		return value{last: v.s}
	}
	return unknown
}

func textOr(v value, s string) string {
	if v.kind == str {
		return v.s
	}
	return s
}

// fold is a call of a function whose value is known when its arguments are.
func (r *reader) fold(v value, open, begin int) (value, bool) {
	how, ok := folds()[r.l][v.s]
	if !ok {
		return unknown, false
	}
	args := r.arguments(open)
	list := make([]value, 0, len(args))
	for _, a := range args {
		list = append(list, a.v)
	}
	arg := func(i int) value {
		if i < len(list) {
			return list[i]
		}
		return unknown
	}
	switch how {
	case foldFirst:
		return arg(0), true
	case foldEnv:
		if arg(0).kind == str {
			r.env(arg(0).s, open)
		}
		return unknown, true
	case foldPath:
		return joinPath(list), true
	case foldJoin:
		return joined(arg(0), textOr(arg(1), "")), true
	case foldChr:
		if c := characters(value{kind: sequence, list: list}); c.kind == sequence {
			return joined(c, ""), true
		}
		if arg(0).kind == sequence {
			return joined(characters(arg(0)), ""), true
		}
		return constant(string(Hole)), true
	case foldBytes:
		if arg(0).kind == sequence {
			if c := characters(arg(0)); c.kind == sequence {
				return joined(c, ""), true
			}
		}
		return arg(0), true
	case foldMapChr:
		if arg(0).kind == named && arg(0).s == "chr" {
			return characters(arg(1)), true
		}
		return unknown, true
	case foldReversed:
		return reversed(arg(0)), true
	case foldBase64:
		return decoded(arg(0), "base64"), true
	case foldHex:
		return decoded(arg(0), "hex"), true
	case foldBase32:
		return decoded(arg(0), "base32"), true
	case foldURL:
		return decoded(arg(0), "url"), true
	case foldCodec:
		return decoded(arg(0), textOr(arg(1), "")), true
	case foldFormat:
		if arg(0).kind == str {
			return formatted(arg(0).s, value{kind: sequence, list: list[1:]}), true
		}
		return unknown, true
	case foldModule:
		if arg(0).kind == str && arg(0).isConstant() {
			return value{kind: named, s: moduleName(canonical(r.l, rootOf(r.l, v.s, arg(0).s))), round: r.l == python}, true
		}
		return unknown, true
	case foldNames:
		if len(list) == 1 && list[0].kind == named && v.s == "vars" {
			if list[0].s == "builtins" {
				return value{kind: space, s: "builtins", round: true}, true
			}
			return value{kind: space, s: "of", base: &list[0], round: true}, true
		}
		return value{kind: space, s: "names", round: true}, true
	case foldGetattr:
		if arg(0).kind == space {
			return r.entry(arg(0), arg(1), open), true
		}
		if arg(0).kind != named {
			if arg(1).kind == str && arg(1).isConstant() {
				return value{last: arg(1).s}, true
			}
			return unknown, true
		}
		b := arg(0)
		if r.l == javascript && globals()[b.s] || r.l == python && b.s == "builtins" || arg(1).kind == str && arg(1).isConstant() {
			if arg(1).kind != str || !arg(1).isConstant() {
				return value{last: dynamicName}, true
			}
			w := r.member(b, arg(1).s)
			w.round = true
			return w, true
		}
		if watched()[b.s] {
			return value{last: dynamicName}, true
		}
		return unknown, true
	case foldAttrgetter:
		if n := textOf(arg(0)); n == "eval" || n == "exec" || n == "system" || n == "popen" || n == "__import__" {
			r.note(begin, "dynamic-name")
		}
		return unknown, true
	case foldApply: // Reflect.apply(f, this, args)
		if arg(0).kind == named {
			if rule, ok := r.l.rules()[arg(0).s]; ok && rule.how != always {
				r.note(begin, rule.id)
			}
		}
		return unknown, true
	case foldPrototype:
		for i := open; i < min(r.matchOf(open), len(r.list)); i++ {
			if r.isWord(i, "function") || r.isSign(i, "=>") {
				return value{fn: true}, true
			}
		}
		return unknown, true
	}
	return unknown, false
}

// rootOf is what __import__("a.b") gives: a. Other functions give a.b.
func rootOf(l *Language, function, module string) string {
	if l == python && function == "__import__" {
		root, _, _ := cutDot(module)
		return root
	}
	return module
}
