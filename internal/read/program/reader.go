package program

import (
	"slices"
	"strings"
	"sync"
)

// A reader follows the expressions of one program.
type reader struct {
	p      *Program
	l      *Language
	data   []byte
	line   int
	nested int

	list    []token
	skip    []bool // tokens that give a name to something
	bound   map[string][]binding
	members map[int]bool
	spans   []span
	scopeOf []int
	stars   []string // modules whose names are all imported
	imports []string

	depth int          // of expressions
	busy  map[int]bool // values that are being followed
	kept  map[int]keptValue
	quiet int // nothing is noted: the expression is read for its value
	steps int
	seen  map[Text]bool
}

func newReader(p *Program, l *Language, data []byte, line, nested int) *reader {
	list, embedded := scan(l, data, line)
	p.Texts = append(p.Texts, embedded...)
	return &reader{p: p, l: l, data: data, line: line, nested: nested, list: list, skip: make([]bool, len(list)),
		bound: map[string][]binding{}, members: map[int]bool{}, busy: map[int]bool{}, kept: map[int]keptValue{}, seen: map[Text]bool{}}
}

// read looks at every expression, at the outermost first.
func (r *reader) read() {
	r.bindAll()
	for i := range r.list {
		if r.skip[i] || !r.beginsOperand(i) {
			continue
		}
		if r.tooInvolved() {
			// A program that nobody can follow is not one that is known to be fixed.
			r.note(i, "too-involved")
			return
		}
		var v value
		var next int
		if r.isSign(i-1, "+") {
			v, next = r.operand(i)
		} else {
			v, next = r.expr(i)
		}
		r.reference(i, next, v)
		if v.kind == str && !r.isDocstring(i, next) {
			r.text(i, v.s)
		}
	}
}

func (r *reader) tooInvolved() bool { return r.steps > maxSteps+64*len(r.list) }

// note tells of a run, unless the expression is only read for its value.
func (r *reader) note(at int, id string) {
	if r.quiet > 0 || at >= len(r.list) {
		return
	}
	t := r.list[at]
	r.p.add(Run{Line: t.line, ID: id, Text: lineAt(r.data, t.at)})
}

// beginsOperand reports whether an operand begins at a token: it is not the rest
// of one.
func (r *reader) beginsOperand(i int) bool {
	t := r.list[i]
	switch t.kind {
	case word:
		return !r.isSign(i-1, ".") && !r.isSign(i-1, "?.") && !(keywords()[r.l][t.text] && !operandWords()[t.text])
	case text:
		return !r.isText(i - 1)
	case sign:
		if t.text != "(" && t.text != "[" {
			return false
		}
		return !r.endsOperand(i-1) || r.l == golang && t.first
	}
	return false
}

// operandWords are keywords that an operand may begin with.
var operandWords = sync.OnceValue(func() map[string]bool { return setOf("this import new await super async function") })

// endsOperand reports whether a token may be the end of one, so that a bracket
// behind it is a call or an index.
func (r *reader) endsOperand(i int) bool {
	if i < 0 {
		return false
	}
	t := r.list[i]
	switch t.kind {
	case word:
		return !keywords()[r.l][t.text] || t.text == "this" || t.text == "super" || t.text == "import"
	case text:
		return true
	case sign:
		return t.text == ")" || t.text == "]" || t.text == "?." || t.text == "!" && r.l == javascript && r.endsOperand(i-1) || t.text == "}" && r.l == javascript && !t.made && r.isObject(i)
	}
	return false
}

// isObject reports whether a closing brace is that of an object or a function
// that is called at once.
func (r *reader) isObject(i int) bool { return false }

// isDocstring tells a string that is a statement of its own.
func (r *reader) isDocstring(i, next int) bool {
	return r.l == python && r.statementAt(i) && (next >= len(r.list) || r.list[next].kind == ending)
}

// expr reads the value of an expression, and where it ends.
func (r *reader) expr(i int) (value, int) {
	v, n := r.operand(i)
	for n < len(r.list) && r.list[n].kind == sign {
		if r.l == golang && r.list[n].first {
			break
		}
		switch r.list[n].text {
		case "+":
			w, next := r.operand(n + 1)
			v, n = add(v, w), next
		case "/":
			if r.l != python || v.kind != str {
				return unknown, n
			}
			w, next := r.operand(n + 1)
			v, n = joinPath([]value{v, w}), next
		case "%":
			if r.l != python || v.kind != str {
				return unknown, n
			}
			w, next := r.operand(n + 1)
			v, n = formatted(v.s, w), next
		default:
			return v, n
		}
	}
	return v, n
}

// prefixes stand before an operand and leave what it is.
var prefixes = sync.OnceValue(func() map[string]bool { return setOf("await new void yield return not") })

// operand reads a name, a literal or a parenthesis, and all that is done with it:
// members, indexes, calls.
func (r *reader) operand(i int) (value, int) {
	if r.depth >= maxDepth || i >= len(r.list) || r.tooInvolved() {
		return unknown, max(i+1, 0)
	}
	r.steps++
	r.depth++
	defer func() { r.depth-- }()
	made := false // new X(…)
	for i < len(r.list) && (r.list[i].kind == word && prefixes()[r.list[i].text] || r.isWord(i, "async") && r.isWord(i+1, "function") || r.isSign(i, "&") || r.isSign(i, "*")) {
		made = made || r.list[i].text == "new"
		i++
	}
	v, n := r.primary(i)
	v.made = made
	for n < len(r.list) {
		t := r.list[n]
		if t.kind != sign || t.first && r.l == golang {
			return v, n
		}
		switch {
		case t.text == "." && n+1 < len(r.list) && r.list[n+1].kind == word:
			v = r.attr(v, r.list[n+1].text, n+1)
			n += 2
		case t.text == "?." && n+1 < len(r.list) && r.list[n+1].kind == word:
			v = r.attr(v, r.list[n+1].text, n+1)
			n += 2
		case t.text == "?." || t.text == "!" && r.l == javascript && (r.isSign(n+1, "(") || r.isSign(n+1, ".") || r.isSign(n+1, "[")):
			n++
		case t.text == "[" && !(t.first && r.l == javascript && t.col == 0):
			v = r.index(v, n)
			n = r.matchOf(n) + 1
		case t.text == "(" && t.made && r.l == python:
			w, next := r.primary(n) // "a" f"b"
			v, n = add(v, w), next
		case t.text == "(":
			v = r.call(v, n, i)
			n = r.matchOf(n) + 1
		case t.text == "{" && r.l == golang && v.kind == named:
			v = r.composite(v, n)
			n = r.matchOf(n) + 1
		default:
			return v, n
		}
	}
	return v, n
}

func (r *reader) primary(i int) (value, int) {
	if i >= len(r.list) {
		return unknown, i
	}
	t := r.list[i]
	switch t.kind {
	case text:
		v := constant(t.text)
		for r.l == python && (r.isText(i+1) || r.isSign(i+1, "(") && r.list[i+1].made) {
			if r.isText(i + 1) {
				v, i = add(v, constant(r.list[i+1].text)), i+1
				continue
			}
			w, next := r.primary(i + 1)
			v, i = add(v, w), next-1
		}
		return v, i + 1
	case number:
		return numeric(t.text), i + 1
	case word:
		switch t.text {
		case "function":
			return value{fn: true}, r.functionEnd(i)
		case "class", "lambda", "func":
			return value{fn: true}, i + 1
		}
		return r.name(i), i + 1
	case sign:
		switch t.text {
		case "(":
			return r.group(i)
		case "[":
			return r.listAt(i)
		case "{":
			return unknown, r.matchOf(i) + 1
		}
	}
	return unknown, i + 1
}

// functionEnd is behind the body of a function.
func (r *reader) functionEnd(i int) int {
	for j := i + 1; j < len(r.list) && j < i+40; j++ {
		if r.isSign(j, "(") {
			j = r.matchOf(j)
			continue
		}
		if r.isSign(j, "{") {
			return r.matchOf(j) + 1
		}
	}
	return i + 1
}

// An argument is one of a call, or an element of a list.
type argument struct {
	name     string // of name=value
	v        value
	from, to int // its tokens
	whole    bool
	spread   bool
}

// arguments reads what stands in brackets, between commas.
func (r *reader) arguments(open int) []argument {
	if r.list[open].match <= open {
		return nil // it does not end: this is not a program
	}
	r.quiet++
	defer func() { r.quiet-- }()
	var list []argument
	end := min(r.matchOf(open), len(r.list))
	for i := open + 1; i < end; {
		a := argument{from: i}
		to := i
		for to < end && !(r.isSign(to, ",") && r.list[to].outer == open) {
			if r.list[to].match > to {
				to = r.list[to].match
			}
			to++
		}
		to = min(to, end)
		a.to = to
		for r.isSign(i, "*") || r.isSign(i, "**") || r.isSign(i, "...") {
			a.spread = true
			i++
		}
		if r.l == python && r.isName(i) && r.isSign(i+1, "=") {
			a.name = r.list[i].text
			i += 2
		}
		var next int
		a.v, next = r.expr(i)
		// What follows a value makes another of it: a choice, a comparison. A
		// type behind "as" does not.
		a.whole = next >= to || r.isWord(next, "as") || r.l == golang && r.isSign(next, "...")
		if r.isSign(next, "...") {
			a.spread = true
		}
		if !a.whole && a.v.kind != named {
			a.v = value{kind: a.v.kind}
			if a.v.kind == str {
				a.v.s = string(Hole)
			}
		}
		list = append(list, a)
		i = to + 1
		if len(list) > 4096 {
			return list
		}
	}
	return list
}

// group is a parenthesis that is not a call.
func (r *reader) group(i int) (value, int) {
	end := r.matchOf(i)
	if r.isSign(end+1, "=>") {
		return value{fn: true}, end + 1
	}
	list := r.arguments(i)
	if len(list) == 0 {
		return value{kind: sequence}, end + 1
	}
	if len(list) == 1 {
		v := list[0].v
		f := r.list[list[0].from]
		v.fn = v.fn || f.kind == word && (f.text == "function" || f.text == "async") || r.hasArrow(list[0])
		return v, end + 1
	}
	if r.l == javascript {
		return list[len(list)-1].v, end + 1
	}
	return sequenceOf(list), end + 1
}

func (r *reader) hasArrow(a argument) bool {
	for i := a.from; i < a.to; i++ {
		if r.isSign(i, "=>") && r.list[i].outer == r.list[a.from].outer || r.isSign(i, "=>") && r.isSign(a.from, "(") {
			return true
		}
	}
	return false
}

func sequenceOf(list []argument) value {
	v := value{kind: sequence}
	for _, a := range list {
		w := a.v
		if a.spread && w.kind == sequence {
			v.list = append(v.list, w.list...)
			continue
		}
		if a.spread {
			w = unknown
		}
		v.list = append(v.list, w)
	}
	return v
}

// listAt is [a, b], and in Go also []string{a, b}.
func (r *reader) listAt(i int) (value, int) {
	end := r.matchOf(i)
	if r.l == golang && r.list[min(end, len(r.list)-1)].text == "]" {
		j := end + 1
		for r.isSign(j, "*") || r.isSign(j, ".") || j < len(r.list) && r.list[j].kind == word && !keywords()[r.l][r.list[j].text] {
			j++
		}
		if r.isSign(j, "{") {
			return sequenceOf(r.arguments(j)), r.matchOf(j) + 1
		}
		if r.isSign(j, "(") { // []byte("…")
			if list := r.arguments(j); len(list) == 1 {
				return list[0].v, r.matchOf(j) + 1
			}
		}
		return unknown, end + 1
	}
	if v, ok := r.comprehension(i); ok {
		return v, end + 1
	}
	return sequenceOf(r.arguments(i)), end + 1
}

// comprehension follows chr(x) for x in [101, …] and [chr(x) for …].
func (r *reader) comprehension(open int) (value, bool) {
	if r.l != python || !r.isWord(open+1, "chr") || !r.isSign(open+2, "(") {
		return unknown, false
	}
	j := r.matchOf(open+2) + 1
	if !r.isWord(j, "for") || !r.isName(j+1) || !r.isWord(j+2, "in") {
		return unknown, false
	}
	r.quiet++
	defer func() { r.quiet-- }()
	v, _ := r.expr(j + 3)
	return characters(v), true
}

// name is what a name stands for.
func (r *reader) name(i int) value {
	name := r.list[i].text
	var bs []binding
	if len(r.bound[name]) <= maxBound { // what is bound more often is not followed
		bs = r.lookup(name, i)
	}
	if len(solid(bs)) == 0 {
		if v, ok := constants()[r.l][name]; ok {
			return constant(v)
		}
		for _, m := range r.stars {
			if _, ok := r.l.rules()[canonical(r.l, m+"."+name)]; ok {
				return value{kind: named, s: canonical(r.l, m+"."+name)}
			}
		}
		if len(bs) == 0 || r.l.rules()[name].id != "" {
			return value{kind: named, s: canonical(r.l, name)}
		}
	}
	return r.valueOf(bs)
}

// valueOf is what bindings of one name say together. Of several, one that runs
// programs is what counts; texts that differ are not constant.
func (r *reader) valueOf(bs []binding) value {
	var all value
	for k, b := range bs {
		v := r.bindingValue(b)
		switch {
		case k == 0:
			all = v
		case b.adds:
			all = add(all, v)
		case v.kind == named && (r.l.rules()[v.s].id != "" || all.kind != named):
			all = v
		case all.kind == named:
		case all.kind == str && v.kind == str && all.s == v.s:
		default:
			all = value{kind: all.kind}
			if all.kind == str {
				all.s = string(Hole)
			} else {
				all = unknown
			}
		}
	}
	return all
}

func (r *reader) bindingValue(b binding) value {
	if b.named != "" {
		return value{kind: named, s: canonical(r.l, b.named)}
	}
	if b.expr < 0 || b.expr >= len(r.list) || r.busy[b.expr] {
		return unknown
	}
	v, next := r.followed(b.expr)
	if b.member != "" {
		r.quiet++
		v = r.attr(v, b.member, b.expr)
		r.quiet--
		return v
	}
	// A choice (a if c else b) is not constant; a name that runs programs is one
	// whatever else it may be.
	if !r.endsExpr(next) && v.kind != named {
		return unknown
	}
	v.alias = true
	return v
}

// followed is the value of an expression that a name is bound to. It is kept, so
// that names bound to names cost no more than their number.
func (r *reader) followed(i int) (value, int) {
	if k, ok := r.kept[i]; ok {
		return k.v, k.next
	}
	r.busy[i] = true
	r.quiet++
	v, next := r.expr(i)
	r.quiet--
	delete(r.busy, i)
	r.kept[i] = keptValue{v, next}
	return v, next
}

type keptValue struct {
	v    value
	next int
}

// endsExpr reports whether an expression ends before a token.
func (r *reader) endsExpr(i int) bool {
	if i >= len(r.list) || r.list[i].kind == ending || r.list[i].first && r.l != python {
		return true
	}
	t := r.list[i]
	return t.kind == sign && (t.text == ";" || t.text == "," || t.text == ")" || t.text == "]" || t.text == "}" || t.text == "=") || r.isWord(i, "as")
}

// reference notes a name that runs texts where it is not called: it is kept or
// handed on to be called elsewhere.
func (r *reader) reference(i, next int, v value) {
	if v.kind != named || v.called {
		return
	}
	rule, ok := r.l.rules()[v.s]
	if !ok {
		return
	}
	if rule.how == always || rule.how == defines {
		if rule.how == defines && !v.round {
			return
		}
		r.note(i, rule.id)
		return
	}
	handed := rule.how == shellText || rule.how == programArgs
	if v.round && handed {
		r.note(i, rule.id)
		return
	}
	if !handed && rule.how != moduleText && rule.id != "unpickle" {
		return
	}
	o := r.list[i].outer
	if o < 0 || !r.isSign(o, "(") || !r.endsOperand(o-1) || !r.isSign(next, ",") && !r.isSign(next, ")") || r.wraps(o) {
		return
	}
	// It is handed to another function, with what that will call it with.
	for _, a := range r.arguments(o) {
		if a.from <= i && i < a.to || a.v.isConstant() {
			continue
		}
		r.note(i, rule.id)
		return
	}
}

// wraps reports whether a call is one whose value is followed.
func (r *reader) wraps(open int) bool {
	t := r.list[open-1]
	return t.kind == word && (t.text == "promisify" || t.text == "partial" || t.text == "isinstance" || t.text == "hasattr" || t.text == "patch")
}

// text keeps a constant text, with what is done with it.
func (r *reader) text(i int, s string) {
	if strings.Trim(s, string(Hole)) == "" || len(s) > 1<<16 {
		return
	}
	r.keep(Text{Line: r.list[i].line, Text: s, Writes: r.writes(i)})
}

func (r *reader) keep(t Text) {
	if r.quiet > 0 && !t.Env || r.seen[t] || strings.Trim(t.Text, string(Hole)) == "" {
		return
	}
	r.seen[t] = true
	r.p.Texts = append(r.p.Texts, t)
}

// writeCalls write the file that their first text names.
var writeCalls = sync.OnceValue(func() map[string]bool {
	return setOf("writefile writefilesync write_file file_write writetextfile createwritestream appendfile appendfilesync to_csv to_json to_parquet to_excel to_pickle savetxt savefig save create createtemp makedirs mkdir mkdirall touch write_text write_bytes outputfile")
})

// joinCalls give a path that another call is told.
var joinCalls = sync.OnceValue(func() map[string]bool {
	return setOf("join path purepath posixpath resolve abspath normpath expanduser str string fspath strpath")
})

// writes reports whether the file that a text names is written: the call that
// the text stands in writes, or opens it to write.
func (r *reader) writes(i int) bool {
	for range 6 {
		o := r.list[i].outer
		if o < 0 || r.list[o].text != "(" {
			return false
		}
		if r.writesAfter(r.matchOf(o) + 1) {
			return true
		}
		callee := ""
		if r.endsOperand(o-1) && r.list[o-1].kind == word {
			callee = strings.ToLower(r.list[o-1].text)
		}
		switch {
		case writeCalls()[callee]:
			return true
		case callee == "open" || callee == "openfile" || callee == "opensync" || callee == "fopen":
			return r.opensToWrite(o)
		case callee == "" || joinCalls()[callee]:
			i = o
		default:
			return false
		}
	}
	return false
}

// writesAfter is .write_text( or .open("w") behind a path.
func (r *reader) writesAfter(n int) bool {
	if !r.isSign(n, ".") || n+1 >= len(r.list) {
		return false
	}
	switch r.list[n+1].text {
	case "write_text", "write_bytes", "touch", "mkdir", "writeText":
		return true
	case "open":
		return r.isSign(n+2, "(") && r.opensToWrite(n+2)
	}
	return false
}

// opensToWrite looks for a mode or a flag that only writes.
func (r *reader) opensToWrite(open int) bool {
	for k, a := range r.arguments(open) {
		if a.v.kind == str && (a.name == "mode" || k > 0 || r.list[open-1].outer >= 0 && len(a.v.s) < 3) && isWriteMode(a.v.s) {
			return true
		}
		for i := a.from; i < a.to && i < len(r.list); i++ {
			if r.isWord(i, "O_WRONLY") || r.isWord(i, "O_APPEND") || r.isWord(i, "O_CREATE") && !r.isWord(i, "O_RDWR") {
				return true
			}
		}
	}
	return false
}

func isWriteMode(s string) bool {
	return len(s) > 0 && len(s) <= 3 && strings.ContainsAny(s, "wax") && !strings.ContainsAny(s, "r+")
}

// call is a call: of a method of a constant, of a function that gives a constant,
// or of one that may run a text.
func (r *reader) call(v value, open, begin int) value {
	switch v.kind {
	case method:
		return r.callMethod(v, open)
	case named:
		out, followed := r.fold(v, open, begin)
		if rule, ok := r.l.rules()[v.s]; ok {
			r.judge(rule, v, open, begin)
		} else if rule, ok := r.l.methods()[lastName(v.s)]; ok && strings.Contains(v.s, ".") {
			r.judge(rule, v, open, begin)
		}
		if followed {
			return out
		}
		out = value{called: true, last: v.s}
		if strings.HasPrefix(v.s, "ctypes.") {
			out = value{kind: named, s: "library", called: true}
		}
		return out
	}
	if v.last == dynamicName {
		r.note(begin, "dynamic-name")
	}
	if rule, ok := r.l.methods()[v.last]; ok {
		r.judge(rule, v, open, begin)
	}
	if v.last == "constructor" && r.l == javascript && !v.made {
		if a := r.arguments(open); len(a) > 0 && a[0].v.kind == str {
			r.note(begin, "new-function")
		}
	}
	return value{called: true}
}

func lastName(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }

// keyword is the argument of a name; its tokens as text.
func (r *reader) keyword(args []argument, name string) (string, bool) {
	for _, a := range args {
		if a.name != name {
			continue
		}
		var b strings.Builder
		for i := a.from + 2; i < a.to && i < len(r.list); i++ {
			b.WriteString(r.list[i].text)
		}
		return b.String(), true
	}
	return "", false
}

// option is true if a list of options says name: true.
func (r *reader) option(open int, name string) bool {
	for i := open; i < min(r.matchOf(open), len(r.list)); i++ {
		if r.list[i].text == name && r.isSign(i+1, ":") && i+2 < len(r.list) && !r.isWord(i+2, "false") {
			return true
		}
	}
	return false
}

// judge decides whether a call runs a text.
func (r *reader) judge(rule rule, v value, open, begin int) {
	args := r.arguments(open)
	if v.round && rule.how != moduleText {
		r.note(begin, rule.id)
		return
	}
	switch rule.how {
	case always, called, defines:
		r.note(begin, rule.id)
	case shellText:
		r.judgeShell(rule, args, begin)
	case programArgs:
		r.judgeProgram(rule, args, open, begin)
	case moduleText:
		r.judgeModule(rule, args, begin)
	case textOnly:
		if len(args) > 0 && (args[0].v.kind == str || args[0].v.mixed) {
			r.note(begin, rule.id)
		}
	case notConstant:
		if len(args) > rule.arg && !args[rule.arg].v.isConstant() {
			r.note(begin, rule.id)
		}
	case unsafeLoader:
		loader, ok := r.keyword(args, "Loader")
		if !ok && len(args) > 1 && args[1].name == "" {
			loader = args[1].v.s
		}
		if !strings.Contains(loader, "SafeLoader") && !strings.Contains(loader, "BaseLoader") {
			r.note(begin, rule.id)
		}
	case workerText:
		if len(args) > 0 && !args[0].v.isConstant() || r.option(open, rule.flag) {
			r.note(begin, rule.id)
		}
	case flagSet:
		if got, ok := r.keyword(args, rule.flag); ok && got == rule.value {
			r.note(begin, rule.id)
		}
	}
}

// judgeShell is a call with the text of a command.
func (r *reader) judgeShell(rule rule, args []argument, begin int) {
	if len(args) <= rule.arg {
		return
	}
	r.shellValue(rule.id, args[rule.arg].v, args[rule.arg].from, begin)
}

func (r *reader) shellValue(id string, v value, from, begin int) {
	switch {
	case v.kind == sequence && len(v.list) > 0:
		r.programValue(id, v.list, begin)
	case !v.isConstant():
		if from < len(r.list) && r.list[from].made {
			id = "exec-interpolated-template"
		}
		r.note(begin, id)
	default:
		r.inside(shell, v.s, begin)
	}
}

// inside reads a constant program that this one runs.
func (r *reader) inside(l *Language, code string, begin int) {
	if r.quiet > 0 || begin >= len(r.list) {
		return
	}
	var p Program
	p.read(l, []byte(code), 0, r.nested+1)
	for _, run := range p.Runs {
		r.note(begin, run.ID)
	}
	for _, t := range p.Texts {
		t.Line = r.list[begin].line
		r.keep(t)
	}
}

// judgeProgram is a call with a program and its arguments, as a list or one by
// one.
func (r *reader) judgeProgram(rule rule, args []argument, open, begin int) {
	var list []value
	shellToo := false
	for k, a := range args {
		if k < rule.arg {
			continue
		}
		if a.name != "" && a.name != "args" && a.name != "cmd" && a.name != "command" && a.name != "program" {
			continue
		}
		switch {
		case a.v.kind == sequence && len(list) == 0 && !a.spread:
			list = append(list, a.v.list...)
		case a.v.kind == sequence && !a.spread:
			list = append(list, a.v.list...)
		case a.spread && a.v.kind == sequence:
			list = append(list, a.v.list...)
		default:
			list = append(list, a.v)
		}
		if rule.one && k == rule.arg {
			break
		}
	}
	if got, ok := r.keyword(args, "shell"); ok && got != "False" {
		shellToo = true
	}
	if r.l == javascript && r.option(open, "shell") {
		shellToo = true
	}
	if rule.repeats && len(list) > 1 {
		list = slices.Delete(list, 1, 2)
	}
	if len(list) == 0 {
		if len(args) > rule.arg {
			r.note(begin, rule.id)
		}
		return
	}
	if shellToo {
		// Arguments are a part of the command that the shell reads.
		line := joined(value{kind: sequence, list: list}, " ")
		r.shellValue("exec-shell", line, args[min(rule.arg, len(args)-1)].from, begin)
		return
	}
	r.programValue(rule.id, list, begin)
}

// programValue is a program with its arguments.
func (r *reader) programValue(id string, list []value, begin int) {
	if list[0].kind != str || !hasFixedName(list[0].s) {
		if list[0].mixed || list[0].kind == str && r.begins(begin) {
			id = "exec-interpolated-template"
		}
		r.note(begin, id)
		return
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(Hole)
		if v.kind == str {
			words[i] = v.s
		}
	}
	for _, w := range words {
		r.keep(Text{Line: r.list[begin].line, Text: w})
	}
	run, code, l := interpreterRuns(words)
	switch {
	case run != "":
		r.note(begin, run)
	case l != nil:
		r.inside(l, code, begin)
	case readsProgram(words):
		r.note(begin, "exec-stdin")
	default:
		r.ran(begin, words)
	}
}

// ran keeps the files that a program runs: one that it has written itself is not
// fixed.
func (r *reader) ran(begin int, words []string) {
	if r.quiet > 0 {
		return
	}
	t := r.list[begin]
	if file := fileRun(words); file != "" {
		r.p.ran = append(r.p.ran, ranFile{file, Run{Line: t.line, ID: "run-written", Text: lineAt(r.data, t.at)}})
	}
}

// fileRun is the file that a command runs: the script that an interpreter is
// given, or itself if it is a path.
func fileRun(words []string) string {
	if _, ok := interpreters()[strings.TrimRight(words[0][strings.LastIndexByte(words[0], '/')+1:], "0123456789.")]; !ok {
		if strings.Contains(words[0], "/") {
			return words[0]
		}
		return ""
	}
	for _, w := range words[1:] {
		if w != "" && w[0] != '-' {
			return w
		}
	}
	return ""
}

// readsProgram reports whether an interpreter is given neither a text nor a file:
// it runs what it is fed.
func readsProgram(words []string) bool {
	in, ok := interpreters()[strings.TrimRight(words[0][strings.LastIndexByte(words[0], '/')+1:], "0123456789.")]
	if !ok || !in.file {
		return false
	}
	for _, w := range words[1:] {
		if w != "-" && w != "-s" && w != "-i" && w != "-u" && w != "-e" && w != "-l" {
			return false
		}
	}
	return true
}

func (r *reader) begins(i int) bool { return i < len(r.list) && r.list[i].made }

// judgeModule is a call that loads a module of a name. A name of which the
// beginning is fixed is one of this program's own modules.
func (r *reader) judgeModule(rule rule, args []argument, begin int) {
	if len(args) == 0 {
		return
	}
	v := args[0].v
	if v.kind == str {
		s := v.s
		for _, scheme := range []string{"data:", "http:", "https:", "blob:"} {
			if strings.HasPrefix(s, scheme) {
				r.note(begin, rule.id)
				return
			}
		}
		head, _, cut := strings.Cut(s, string(Hole))
		if !cut || strings.HasPrefix(head, "./") || strings.HasPrefix(head, "../") || r.l == python && strings.Contains(head, ".") {
			return
		}
	}
	r.note(begin, rule.id)
}

// composite is exec.Cmd{Path: …} in Go.
func (r *reader) composite(v value, open int) value {
	rule, ok := r.l.rules()[v.s]
	if !ok || rule.how != defines {
		return value{called: true}
	}
	for i := open + 1; i < min(r.matchOf(open), len(r.list)); i++ {
		if r.list[i].outer != open || !r.isWord(i, "Path") && !r.isWord(i, "Args") || !r.isSign(i+1, ":") {
			continue
		}
		r.quiet++
		w, _ := r.expr(i + 2)
		r.quiet--
		if w.kind == sequence {
			r.programValue(rule.id, w.list, i)
		} else {
			r.programValue(rule.id, []value{w}, i)
		}
	}
	return value{called: true}
}

// hasFixedName reports whether the file that a path names is constant, wherever
// it lies.
func hasFixedName(s string) bool {
	base := s[strings.LastIndexByte(s, '/')+1:]
	return strings.TrimSpace(base) != "" && !strings.ContainsRune(base, Hole)
}

// interpreterRuns says what a program does that is given a text to run: the id of
// a finding if the text is not constant, else the text and its language.
func interpreterRuns(words []string) (id, code string, l *Language) {
	words = slices.Clone(words)
	carried := false
	for k := range words {
		name := words[k][strings.LastIndexByte(words[k], '/')+1:]
		in, ok := interpreters()[strings.TrimRight(name, "0123456789.")]
		if !ok {
			carried = carried || carriers()[name]
			continue
		}
		if k > 0 && !carried && !(in.language == shell && k+1 < len(words) && in.isCode(words[k+1])) {
			continue // the name of an interpreter among the arguments of another program
		}
		for j := k + 1; j < len(words); j++ {
			w := words[j]
			if w == "" || w[0] != '-' && !slices.Contains(in.flags, w) || w == "-" || w == "--" {
				// The file that it runs.
				if w != "" && w != "-" && w != "--" && in.file && !hasFixedName(w) {
					return "exec-nonliteral", "", nil
				}
				break
			}
			if flag, rest, found := strings.Cut(w, "="); found && slices.Contains(in.flags, flag) {
				return codeOf(rest, in)
			}
			if slices.Contains(in.modules, w) {
				break
			}
			if !in.isCode(w) {
				continue
			}
			if attached := in.attached(w); attached != "" {
				return codeOf(attached, in)
			}
			if j+1 < len(words) && words[j+1] == "--" {
				j++
			}
			if j+1 < len(words) {
				return codeOf(words[j+1], in)
			}
		}
		return "", "", nil
	}
	return "", "", nil
}

func codeOf(code string, in interpreter) (string, string, *Language) {
	if strings.ContainsRune(code, Hole) {
		return "exec-shell", "", nil
	}
	return "", code, in.language
}
