package program

import (
	"slices"
	"sync"
)

// A binding gives a name a meaning in a part of a program.
type binding struct {
	from, to int    // where it holds, in tokens
	expr     int    // where its value stands, -1 if that is unknown
	named    string // of an import, what it stands for
	member   string // of { member: name } = value
	adds     bool   // += and not =
	class    bool   // it holds in the body of a class, and not in its functions
	loose    bool   // it may not have happened: it stands in a branch of the module
}

// keywords are words that are not names, of all three languages but for those
// that are names in another.
var keywords = sync.OnceValue(func() map[*Language]map[string]bool {
	return map[*Language]map[string]bool{
		python:     setOf("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield"),
		javascript: setOf("async await break case catch class const continue debugger default delete do else enum export extends false finally for function if implements in instanceof interface let new null of return static super switch this throw true try typeof undefined var void while with yield"),
		golang:     setOf("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var nil true false"),
	}
})

func setOf(words string) map[string]bool {
	m := map[string]bool{}
	from := 0
	for i := 0; i <= len(words); i++ {
		if i == len(words) || words[i] == ' ' {
			if i > from {
				m[words[from:i]] = true
			}
			from = i + 1
		}
	}
	return m
}

func (r *reader) isWord(i int, w string) bool {
	return i >= 0 && i < len(r.list) && r.list[i].kind == word && r.list[i].text == w
}

func (r *reader) isSign(i int, s string) bool {
	return i >= 0 && i < len(r.list) && r.list[i].kind == sign && r.list[i].text == s
}

func (r *reader) isName(i int) bool {
	return i >= 0 && i < len(r.list) && r.list[i].kind == word && !keywords()[r.l][r.list[i].text]
}

func (r *reader) isText(i int) bool {
	return i >= 0 && i < len(r.list) && r.list[i].kind == text
}

// matchOf is the bracket that belongs to one; the end of the program if it is
// missing.
func (r *reader) matchOf(i int) int {
	if m := r.list[i].match; m > i {
		return m
	}
	return len(r.list)
}

func (r *reader) bind(name string, b binding) {
	r.bound[name] = append(r.bound[name], b)
}

// lookup is what a name is bound to at a place: the bindings of the innermost
// part of the program that has some.
func (r *reader) lookup(name string, at int) []binding {
	var best []binding
	from := -1
	for _, b := range r.bound[name] {
		if at < b.from || at > b.to || b.class && r.scopeAt(at) != b.from {
			continue
		}
		switch {
		case b.from > from:
			from, best = b.from, []binding{b}
		case b.from == from:
			best = append(best, b)
		}
	}
	return best
}

// skipAt says that a token is not looked at as an expression: it gives a name to
// something.
func (r *reader) skipAt(i int) {
	if i >= 0 && i < len(r.skip) {
		r.skip[i] = true
	}
}

func (r *reader) bindAll() {
	switch r.l {
	case python:
		r.pythonScopes()
	case javascript:
		r.javascriptScopes()
	case golang:
		r.goScopes()
	}
}

// A span is the body of a function or a class in Python.
type span struct {
	from, to int
	col      int
	class    bool
}

// scopeAt is the beginning of the innermost function or class around a token.
func (r *reader) scopeAt(at int) int {
	if at < len(r.scopeOf) {
		return r.spans[r.scopeOf[at]].from
	}
	return 0
}

// pythonScopes finds functions and classes by their indentation, and what is
// bound in them.
func (r *reader) pythonScopes() {
	r.spans = []span{{from: 0, to: len(r.list), col: -1}}
	r.scopeOf = make([]int, len(r.list))
	stack := []int{0}
	for i := range r.list {
		t := &r.list[i]
		if r.statementAt(i) {
			for len(stack) > 1 && t.col <= r.spans[stack[len(stack)-1]].col {
				r.spans[stack[len(stack)-1]].to = i - 1
				stack = stack[:len(stack)-1]
			}
		}
		r.scopeOf[i] = stack[len(stack)-1]
		if t.kind == word && (t.text == "def" || t.text == "class") && r.isName(i+1) {
			col := r.list[r.lineHead(i)].col
			r.spans = append(r.spans, span{from: i + 2, to: len(r.list), col: col, class: t.text == "class"})
			stack = append(stack, len(r.spans)-1)
		}
	}
	for i := range r.list {
		r.pythonBinding(i)
	}
}

// statementAt reports whether a statement begins at a token, in Python.
func (r *reader) statementAt(i int) bool {
	return r.list[i].outer < 0 && (i == 0 || r.list[i-1].kind == ending)
}

// here is a binding in the innermost function around a token.
func (r *reader) here(i, expr int) binding {
	s := r.spans[r.scopeOf[i]]
	b := binding{from: s.from, to: s.to, expr: expr, class: s.class}
	if s.col < 0 {
		// A branch of the module may not be taken: then the name is what it was.
		b.loose = r.list[r.lineHead(i)].col > 0
	}
	return b
}

func (r *reader) pythonBinding(i int) {
	t := r.list[i]
	switch {
	case t.kind == word && (t.text == "def" || t.text == "class") && r.isName(i+1):
		r.bind(r.list[i+1].text, r.here(i, -1))
		r.skipAt(i + 1)
		if t.text == "def" && r.isSign(i+2, "(") {
			r.parameters(i+2, r.matchOf(i+2), r.spans[r.scopeOf[i+2]])
		}
	case t.kind == word && t.text == "lambda":
		r.lambda(i)
	case t.kind == word && t.text == "import" && r.statementHead(i) == i:
		r.pythonImport(i + 1)
	case t.kind == word && t.text == "from" && r.statementHead(i) == i:
		r.pythonFrom(i)
	case t.kind == word && t.text == "for" && r.isName(i+1):
		b := r.here(i, -1)
		if o := t.outer; o >= 0 {
			b.from, b.to, b.class, b.loose = o, r.matchOf(o), false, false
		}
		for j := i + 1; j < len(r.list) && !r.isWord(j, "in") && r.list[j].kind != ending; j++ {
			if r.isName(j) && !r.isSign(j-1, ".") {
				r.bind(r.list[j].text, b)
			}
		}
	case t.kind == word && t.text == "as" && r.isName(i+1) && !r.isWord(r.statementHead(i), "import") && !r.isWord(r.statementHead(i), "from"):
		r.bind(r.list[i+1].text, r.here(i, -1))
	case t.kind == word && (t.text == "global" || t.text == "nonlocal" || t.text == "del"):
		for j := i + 1; j < len(r.list) && r.list[j].kind != ending; j++ {
			if t.text == "del" && r.isName(j) {
				bs := r.bound[r.list[j].text]
				for k := range bs {
					bs[k].loose = true
				}
			}
			r.skipAt(j)
		}
	case t.kind == sign && (t.text == "=" || t.text == "+=") && t.outer < 0:
		r.assignment(i)
	case t.kind == sign && t.text == ":=" && r.isName(i-1):
		r.bind(r.list[i-1].text, r.here(i, i+1))
	case t.kind == sign && t.text == "=" && r.isName(i-1) && t.outer >= 0 && r.list[t.outer].text == "(" && !t.made:
		r.skipAt(i - 1) // the name of an argument
	}
}

// statementHead is where the statement around a token begins.
func (r *reader) statementHead(i int) int {
	for n := 0; i > 0 && n < maxLine && r.list[i-1].kind != ending && !r.isSign(i-1, ";"); n++ {
		i--
	}
	return i
}

// lineHead is where the line of statements around a token begins.
func (r *reader) lineHead(i int) int {
	for n := 0; i > 0 && n < maxLine && r.list[i-1].kind != ending; n++ {
		i--
	}
	return i
}

// assignment binds the names before = to what stands behind it.
func (r *reader) assignment(i int) {
	head := r.statementHead(i)
	j := head
	for k := i - 1; k >= head; k-- { // a = b = value
		if r.isSign(k, "=") || r.isSign(k, ":") && r.compound(head) {
			j = k + 1
			break
		}
	}
	plainName := r.isName(j) && (j+1 == i || r.isSign(j+1, ":"))
	expr := i + 1
	for k := i + 1; k < min(len(r.list), i+maxLine) && r.list[k].kind != ending; k++ {
		if r.isSign(k, "=") && r.list[k].outer < 0 {
			expr = k + 1 // of a = b = value both are the value
		}
	}
	if plainName {
		b := r.here(i, expr)
		b.adds = r.list[i].text == "+="
		r.bind(r.list[j].text, b)
		return
	}
	place := 0
	for k := j; k < i; k++ {
		if r.isName(k) && !r.isSign(k-1, ".") && (r.isSign(k+1, ",") || r.isSign(k+1, ")") || r.isSign(k+1, "]") || k+1 == i) {
			r.bind(r.list[k].text, r.here(i, r.tupleElement(expr, place)))
			place++
		}
	}
}

// compound reports whether a statement begins with if, for and the like, so that
// another may stand behind its colon.
func (r *reader) compound(i int) bool {
	if r.list[i].kind != word {
		return false
	}
	switch r.list[i].text {
	case "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class", "async":
		return true
	}
	return false
}

// tupleElement is where the n-th of several values stands; -1 if it is one value.
func (r *reader) tupleElement(i, n int) int {
	for k := i; k < min(len(r.list), i+maxLine) && r.list[k].kind != ending && r.list[k].outer == r.list[i].outer; k++ {
		if n == 0 {
			// The last one is a value of several only if a comma was before it.
			return i
		}
		if r.isSign(k, "(") || r.isSign(k, "[") || r.isSign(k, "{") {
			k = r.matchOf(k)
			continue
		}
		if r.isSign(k, ",") {
			n--
			i = k + 1
		}
	}
	if n == 0 {
		return i
	}
	return -1
}

// parameters binds those of a function.
func (r *reader) parameters(open, end int, s span) {
	for i := open + 1; i < end && i < len(r.list); i++ {
		if r.isName(i) && r.list[i].outer == open && (i == open+1 || r.isSign(i-1, ",") || r.isSign(i-1, "*") || r.isSign(i-1, "**")) {
			b := binding{from: s.from, to: s.to, expr: -1}
			if r.isSign(i+1, "=") { // its default may be what it is
				b.expr = i + 2
			}
			r.bind(r.list[i].text, b)
			r.skipAt(i)
		}
	}
}

func (r *reader) lambda(i int) {
	end := len(r.list)
	if o := r.list[i].outer; o >= 0 {
		end = r.matchOf(o)
	}
	for j := i + 1; j < len(r.list) && !r.isSign(j, ":") && r.list[j].kind != ending; j++ {
		if r.isName(j) && (j == i+1 || r.isSign(j-1, ",") || r.isSign(j-1, "*") || r.isSign(j-1, "**")) {
			b := binding{from: i, to: end, expr: -1}
			if r.isSign(j+1, "=") {
				b.expr = j + 2
			}
			r.bind(r.list[j].text, b)
			r.skipAt(j)
		}
	}
}

// dotted reads a.b.c and says where it ends.
func (r *reader) dotted(i int) (string, int) {
	name := ""
	for i < len(r.list) && (r.list[i].kind == word || r.isSign(i, ".") || r.isSign(i, "...")) && !r.isWord(i, "import") && !r.isWord(i, "as") {
		name += r.list[i].text
		r.skipAt(i)
		i++
	}
	return name, i
}

func (r *reader) pythonImport(i int) {
	for i < len(r.list) && r.list[i].kind != ending && !r.isSign(i, ";") {
		name, next := r.dotted(i)
		b := r.here(i, -1)
		switch {
		case r.isWord(next, "as") && r.isName(next+1):
			b.named = name
			r.skipAt(next + 1)
			r.bind(r.list[next+1].text, b)
			next += 2
		case name != "":
			root, _, _ := cutDot(name)
			b.named = root
			r.bind(root, b)
		}
		if next == i {
			next++
		}
		i = next
	}
}

func cutDot(name string) (before, after string, found bool) {
	for i := 0; i < len(name); i++ {
		if name[i] == '.' {
			return name[:i], name[i+1:], true
		}
	}
	return name, "", false
}

func (r *reader) pythonFrom(i int) {
	module, j := r.dotted(i + 1)
	if !r.isWord(j, "import") {
		return
	}
	for j++; j < len(r.list) && r.list[j].kind != ending && !r.isSign(j, ";"); j++ {
		r.skipAt(j)
		if r.isSign(j, "*") {
			r.stars = append(r.stars, module)
		}
		if !r.isName(j) {
			continue
		}
		b := r.here(i, -1)
		b.named = module + "." + r.list[j].text
		if r.isWord(j+1, "as") && r.isName(j+2) {
			j += 2
			r.skipAt(j)
		}
		r.bind(r.list[j].text, b)
	}
}

// braceOf is the block around a token: the whole program, or from one brace to
// the other.
func (r *reader) braceOf(i int, function bool) (from, to int) {
	for o := r.list[i].outer; o >= 0; o = r.list[o].outer {
		if r.list[o].text == "{" && (!function || r.isFunctionBody(o)) {
			return o, r.matchOf(o)
		}
	}
	return 0, len(r.list)
}

// isFunctionBody tells the brace of a function from that of a block.
func (r *reader) isFunctionBody(o int) bool {
	if r.isSign(o-1, "=>") {
		return true
	}
	if !r.isSign(o-1, ")") || r.list[o-1].match == 0 {
		return false
	}
	before := r.list[o-1].match - 1
	return before >= 0 && !(r.list[before].kind == word && setControl()[r.list[before].text])
}

var setControl = sync.OnceValue(func() map[string]bool { return setOf("if for while switch catch with") })

func (r *reader) javascriptScopes() {
	for i := range r.list {
		t := r.list[i]
		switch {
		case t.kind == word && (t.text == "let" || t.text == "const" || t.text == "var"):
			from, to := r.braceOf(i, t.text == "var")
			r.declare(i+1, binding{from: from, to: to})
		case t.kind == word && (t.text == "function" || t.text == "class") && !r.isSign(i-1, "."):
			j := i + 1
			if r.isSign(j, "*") {
				j++
			}
			if r.isName(j) {
				from, to := r.braceOf(i, false)
				r.bind(r.list[j].text, binding{from: from, to: to, expr: -1})
				r.skipAt(j)
				j++
			}
			if t.text == "function" && r.isSign(j, "(") {
				r.patterns(j, r.bodyEnd(r.matchOf(j)+1))
			}
		case t.kind == sign && t.text == "=>":
			r.arrow(i)
		case t.kind == word && t.text == "import" && !r.isSign(i-1, ".") && !r.isSign(i+1, "("):
			r.javascriptImport(i)
		case t.kind == word && t.text == "catch" && r.isSign(i+1, "("):
			r.patterns(i+1, r.bodyEnd(r.matchOf(i+1)+1))
		case t.kind == sign && t.text == "=" && r.isName(i-1) && r.beginsStatement(i-1):
			r.bind(r.list[i-1].text, binding{from: 0, to: len(r.list), expr: i + 1})
		case t.kind == sign && t.text == "+=" && r.isName(i-1) && !r.isSign(i-2, "."):
			from, to := 0, len(r.list)
			if b := r.lookup(r.list[i-1].text, i); len(b) > 0 {
				from, to = b[0].from, b[0].to
			}
			r.bind(r.list[i-1].text, binding{from: from, to: to, expr: i + 1, adds: true})
		case t.kind == word && r.methodAt(i):
			r.skipAt(i)
			open := r.behindTypes(i + 1)
			r.patterns(open, r.bodyEnd(r.matchOf(open)+1))
		case t.kind == word && r.isSign(i+1, ":") && (r.isSign(i-1, "{") || r.isSign(i-1, ",")) && t.outer >= 0 && r.list[t.outer].text == "{":
			r.skipAt(i) // the name of a member
		}
	}
}

// beginsStatement reports whether a name that is assigned to stands alone.
func (r *reader) beginsStatement(i int) bool {
	if i == 0 || r.list[i].first && !r.isSign(i-1, ".") {
		return true
	}
	p := r.list[i-1]
	return p.kind == sign && (p.text == ";" || p.text == "{" || p.text == "}" || p.text == "(" || p.text == "," || p.text == ")" || p.text == "=" || p.text == "=>")
}

// methodAt tells a method that is defined from a call: it stands where a member
// stands, in a class or an object, and a body or a type follows.
func (r *reader) methodAt(i int) bool {
	open := r.behindTypes(i + 1)
	if !r.isSign(open, "(") || i == 0 || r.isSign(i-1, ".") || r.isSign(i-1, "?.") {
		return false
	}
	o := r.list[i].outer
	if o < 0 || r.list[o].text != "{" || !r.holdsMembers(o) {
		return false
	}
	end := r.matchOf(open)
	if !r.isSign(end+1, "{") && !r.isSign(end+1, ":") && !r.isSign(end+1, ";") && !(end+1 < len(r.list) && r.list[end+1].first) && !r.isSign(end+1, "}") && !r.isSign(end+1, ",") {
		return false
	}
	p := r.list[i-1]
	if p.kind == word {
		return setModifiers()[p.text]
	}
	return p.text == "{" || p.text == "}" || p.text == ";" || p.text == "," || p.text == "*" || r.list[i].first
}

// behindTypes goes over <T> behind the name of a method.
func (r *reader) behindTypes(i int) int {
	if !r.isSign(i, "<") {
		return i
	}
	for j := i + 1; j < len(r.list) && j < i+24; j++ {
		if r.isSign(j, ">") {
			return j + 1
		}
	}
	return i
}

var setModifiers = sync.OnceValue(func() map[string]bool {
	return setOf("async static get set public private protected readonly abstract override declare")
})

// holdsMembers reports whether a brace is that of a class, an interface or an
// object, and not of a block.
func (r *reader) holdsMembers(o int) bool {
	if v, ok := r.members[o]; ok {
		return v
	}
	v := r.holdsMembersSlowly(o)
	r.members[o] = v
	return v
}

func (r *reader) holdsMembersSlowly(o int) bool {
	if o == 0 {
		return false
	}
	p := r.list[o-1]
	if p.kind == sign {
		switch p.text {
		case "=", "(", ",", "[", "?", "||", "&&", "??", "...", "+=":
			return true
		case ":":
			return r.list[o].outer >= 0 && r.holdsMembers(r.list[o].outer) || r.list[o].outer >= 0 && r.list[r.list[o].outer].text == "("
		case ")", "=>", ";", "}", "{":
			return false
		}
		return false
	}
	if p.kind == word && p.text == "return" || p.text == "default" || p.text == "yield" {
		return true
	}
	for j := o - 1; j >= 0 && j > o-24; j-- { // class A extends B {
		if r.list[j].kind == word && (r.list[j].text == "class" || r.list[j].text == "interface") {
			return true
		}
		if r.list[j].kind == sign && (r.list[j].text == ";" || r.list[j].text == "{" || r.list[j].text == "}" || r.list[j].text == ")" && r.list[j].outer == r.list[o].outer && r.isSign(j+1, "{")) {
			return false
		}
	}
	return false
}

// bodyEnd is where the body of a function ends that begins at or soon after a
// token.
func (r *reader) bodyEnd(i int) int {
	for j := i; j < len(r.list) && j < i+40; j++ {
		if r.isSign(j, "{") {
			return r.matchOf(j)
		}
		if r.isSign(j, ";") {
			return j
		}
	}
	return min(i, len(r.list))
}

func (r *reader) arrow(i int) {
	end := len(r.list)
	if r.isSign(i+1, "{") {
		end = r.matchOf(i + 1)
	} else if o := r.list[i].outer; o >= 0 {
		end = r.matchOf(o)
	}
	switch {
	case r.isName(i - 1):
		r.bind(r.list[i-1].text, binding{from: i - 1, to: end, expr: -1})
	case r.isSign(i-1, ")") && r.list[i-1].match > 0 || r.isSign(i-1, ")") && r.isSign(0, "("):
		r.patternsTo(r.list[i-1].match, end)
	}
}

// patterns binds the parameters in a parenthesis.
func (r *reader) patterns(open, end int) {
	if open < len(r.list) && r.isSign(open, "(") {
		r.patternsTo(open, end)
	}
}

func (r *reader) patternsTo(open, end int) {
	for i := open + 1; i < r.matchOf(open) && i < len(r.list); i++ {
		if !r.isName(i) || r.isSign(i-1, ".") || r.isSign(i-1, ":") || r.isSign(i-1, "=") {
			continue
		}
		p := r.list[i-1].text
		if p == "(" || p == "," || p == "{" || p == "[" || p == "..." || setModifiers()[p] {
			b := binding{from: open, to: end, expr: -1}
			if r.isSign(i+1, "=") {
				b.expr = i + 2
			}
			r.bind(r.list[i].text, b)
		}
	}
}

// declare binds what let, const or var declare.
func (r *reader) declare(i int, b binding) {
	for i < len(r.list) {
		switch {
		case r.isSign(i, "{") || r.isSign(i, "["):
			end := r.matchOf(i)
			value := -1
			if r.isSign(end+1, "=") {
				value = end + 2
			}
			r.destructure(i, end, value, b)
			i = end + 1
		case r.isName(i):
			b := b
			b.expr = -1
			for j := i + 1; j < len(r.list) && j < i+24; j++ { // over a type
				if r.isSign(j, "=") {
					b.expr = j + 1
					break
				}
				if r.isSign(j, ";") || r.isSign(j, ",") || r.isWord(j, "of") || r.isWord(j, "in") || r.list[j].first {
					break
				}
			}
			r.bind(r.list[i].text, b)
			i++
		default:
			return
		}
		// Another declaration behind a comma at the same level.
		outer := -1
		if i < len(r.list) {
			outer = r.list[i].outer
		}
		for i < len(r.list) && !r.isSign(i, ";") && r.list[i].outer == outer && !r.isSign(i, ",") {
			if r.isSign(i, "(") || r.isSign(i, "[") || r.isSign(i, "{") {
				i = r.matchOf(i)
			}
			i++
			if i < len(r.list) && r.list[i].first && r.list[i].kind == word && keywords()[r.l][r.list[i].text] {
				return
			}
		}
		if !r.isSign(i, ",") || r.list[i].outer != outer {
			return
		}
		i++
	}
}

// destructure binds { a, b: c } = value.
func (r *reader) destructure(open, end, value int, b binding) {
	for i := open + 1; i < end && i < len(r.list); i++ {
		if !r.isName(i) || r.list[i].outer != open && r.list[r.list[i].outer].text == "(" {
			continue
		}
		c := b
		c.expr = value
		c.member = r.list[i].text
		r.skipAt(i)
		name := i
		if r.isSign(i+1, ":") && r.isName(i+2) {
			name = i + 2
			r.skipAt(name)
			i = name
		}
		if r.list[open].text == "[" {
			c.expr, c.member = -1, ""
		}
		r.bind(r.list[name].text, c)
		if r.isSign(i+1, "=") { // a default
			for i < end && !r.isSign(i, ",") {
				i++
			}
		}
	}
}

// javascriptImport binds what import gives names to.
func (r *reader) javascriptImport(i int) {
	end := i + 1
	for end < len(r.list) && !r.isText(end) && !r.isSign(end, ";") && end < i+400 {
		end++
	}
	if !r.isText(end) { // import x = require("y")
		return
	}
	module := moduleName(r.list[end].text)
	whole := binding{from: 0, to: len(r.list), expr: -1, named: module}
	for j := i + 1; j < end; j++ {
		r.skipAt(j)
		if !r.isName(j) && !r.isWord(j, "default") || r.isWord(j, "from") || r.isWord(j, "type") {
			continue
		}
		b := whole
		if o := r.list[j].outer; o >= 0 && o > i {
			b.named = module + "." + r.list[j].text
			if r.isWord(j, "default") {
				b.named = module
			}
		}
		if r.isWord(j+1, "as") && j+2 < end {
			r.skipAt(j + 1)
			j += 2
			r.skipAt(j)
		}
		if r.isWord(j, "as") {
			continue
		}
		r.bind(r.list[j].text, b)
	}
}

func (r *reader) goScopes() {
	for i := range r.list {
		t := r.list[i]
		switch {
		case t.kind == word && t.text == "import":
			r.goImports(i)
		case t.kind == sign && (t.text == ":=" || t.text == "=") && r.isName(i-1):
			r.goAssignment(i)
		case t.kind == sign && t.text == "+=" && r.isName(i-1):
			from, to := r.braceOf(i, false)
			r.bind(r.list[i-1].text, binding{from: from, to: to, expr: i + 1, adds: true})
		case t.kind == word && t.text == "func":
			r.goParameters(i)
		}
	}
}

func (r *reader) goAssignment(i int) {
	j := i - 1
	for j > i-maxLine && j > 0 && !r.list[j].first && (r.isName(j-1) || r.isSign(j-1, ",")) && !keywords()[golang][r.list[j-1].text] {
		j--
	}
	if r.isSign(j-1, ".") || r.isSign(j-1, "]") {
		return
	}
	from, to := r.braceOf(i, false)
	place := 0
	several := false
	for k := i + 1; k < min(len(r.list), i+maxLine) && !r.list[k].first && r.list[k].kind != ending && r.list[k].outer == r.list[i].outer; k++ {
		if r.isSign(k, "(") || r.isSign(k, "{") || r.isSign(k, "[") {
			k = r.matchOf(k)
			continue
		}
		several = several || r.isSign(k, ",")
	}
	for k := j; k < i; k++ {
		if !r.isName(k) {
			continue
		}
		expr := -1
		switch {
		case place == 0:
			expr = i + 1
		case several:
			expr = r.tupleElement(i+1, place)
		}
		r.bind(r.list[k].text, binding{from: from, to: to, expr: expr})
		place++
	}
}

func (r *reader) goParameters(i int) {
	end := len(r.list)
	for j := i + 1; j < len(r.list) && j < i+200; j++ {
		if r.isSign(j, "{") && r.list[j].outer == r.list[i].outer {
			end = r.matchOf(j)
			break
		}
		if r.list[j].kind == ending {
			break
		}
		if r.isSign(j, "(") {
			for k := j + 1; k < r.matchOf(j); k++ {
				if r.isName(k) && (k == j+1 || r.isSign(k-1, ",")) && r.list[k].outer == j {
					defer r.bindLater(r.list[k].text, j, &end)
				}
			}
			j = r.matchOf(j)
		}
	}
}

func (r *reader) bindLater(name string, from int, to *int) {
	r.bind(name, binding{from: from, to: *to, expr: -1})
}

func (r *reader) goImports(i int) {
	end := i + 3
	if r.isSign(i+1, "(") {
		end = r.matchOf(i + 1)
	}
	for j := i + 1; j < end && j < len(r.list); j++ {
		if !r.isText(j) {
			continue
		}
		module := goModule(r.list[j].text)
		name := module
		if k := lastSlash(name); k >= 0 {
			name = name[k+1:]
		}
		if r.list[j-1].kind == word && r.list[j-1].line == r.list[j].line && !r.isWord(j-1, "import") {
			name = r.list[j-1].text
			r.skipAt(j - 1)
		}
		if r.isSign(j-1, ".") {
			r.stars = append(r.stars, module)
		}
		r.imports = append(r.imports, r.list[j].text)
		r.bind(name, binding{from: 0, to: len(r.list), expr: -1, named: module})
	}
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

// solid are bindings that surely happened.
func solid(list []binding) []binding {
	return slices.DeleteFunc(slices.Clone(list), func(b binding) bool { return b.loose })
}
