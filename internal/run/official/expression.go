package official

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An expr is a node of a Python expression, as far as outputs have them.
type expr interface{}

type (
	constant  struct{ value any } // a value of values.go
	name      struct{ id string }
	attribute struct {
		of   expr
		name string
	}
	subscript struct{ of, index expr }
	call      struct {
		function   expr
		positional []expr
		keywords   []keyword
	}
	keyword struct {
		name  string // "" for **
		value expr
	}
	unary struct {
		operator string
		operand  expr
	}
	binary struct {
		left     expr
		operator string
		right    expr
	}
	list  struct{ items []expr }
	tuple struct{ items []expr }
	dict  struct{ keys, values []expr }
	// other is what parses and has no value here: comparisons, lambda, sets, f-strings
	// and the like. Text is its source.
	other struct{ text string }
)

// errSyntax is for everything that Python does not parse.
var errSyntax = errors.New("is not a Python expression")

// maxNesting bounds the recursion; Python's own parser stops at 200 brackets.
const maxNesting = 200

// parseExpression parses a whole text.
func parseExpression(text string) (expr, error) {
	p := &parser{text: text}
	if err := p.scan(); err != nil {
		return nil, err
	}
	e, err := p.tupleOrOne("")
	if err != nil {
		return nil, err
	}
	if p.at < len(p.tokens) {
		return nil, errSyntax
	}
	return e, nil
}

type tokenKind int

const (
	operatorToken tokenKind = iota
	nameToken
	valueToken
	formatToken // an f-string
)

type token struct {
	kind       tokenKind
	text       string
	value      any
	start, end int
}

type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
}

var operators = []string{"**", "//", "<<", ">>", "<=", ">=", "==", "!=", ":=", "...", "+", "-", "*", "/", "%", "@", "&", "|", "^", "~", "<", ">", "(", ")", "[", "]", "{", "}", ",", ":", ".", "="}

var pythonKeywords = strings.Fields("False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield")

func isKeyword(word string) bool { return slices.Contains(pythonKeywords, word) }

// scan cuts the text into tokens. Line ends count only outside of brackets, where they
// end an expression.
func (p *parser) scan() error {
	brackets := []byte{}
	s := p.text
	if strings.ContainsRune(s, 0) || !utf8.ValidString(s) {
		return errSyntax
	}
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\f':
			i++
		case c == '\\' && strings.HasPrefix(s[i:], "\\\n"):
			if i+2 == len(s) {
				return errSyntax
			}
			i += 2
		case c == '\\' && strings.HasPrefix(s[i:], "\\\r\n"):
			i += 3
		case c == '\n' || c == '\r':
			if len(brackets) == 0 && strings.Trim(s[i:], " \t\f\r\n") != "" {
				return errSyntax
			}
			i++
		case c == '#':
			for i < len(s) && s[i] != '\n' {
				i++
			}
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			value, n, err := scanNumber(s[i:])
			if err != nil {
				return err
			}
			p.tokens = append(p.tokens, token{valueToken, "", value, i, i + n})
			i += n
		case c == '"' || c == '\'':
			if err := p.scanString("", &i, i); err != nil {
				return err
			}
		case isNameStart(s[i:]):
			n := nameLength(s[i:])
			word := s[i : i+n]
			if i+n < len(s) && (s[i+n] == '"' || s[i+n] == '\'') && isPrefix(word) {
				start := i
				i += n
				if err := p.scanString(strings.ToLower(word), &i, start); err != nil {
					return err
				}
				continue
			}
			p.tokens = append(p.tokens, token{nameToken, word, nil, i, i + n})
			i += n
		default:
			text := ""
			for _, o := range operators {
				if strings.HasPrefix(s[i:], o) {
					text = o
					break
				}
			}
			if text == "" {
				return errSyntax
			}
			switch text {
			case "(", "[", "{":
				if brackets = append(brackets, text[0]); len(brackets) >= maxNesting {
					return errSyntax
				}
			case ")", "]", "}":
				if len(brackets) == 0 || strings.IndexByte("([{", brackets[len(brackets)-1]) != strings.IndexByte(")]}", text[0]) {
					return errSyntax
				}
				brackets = brackets[:len(brackets)-1]
			}
			p.tokens = append(p.tokens, token{operatorToken, text, nil, i, i + len(text)})
			i += len(text)
		}
	}
	if len(brackets) > 0 {
		return errSyntax
	}
	return nil
}

func isNameStart(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
}

func nameLength(s string) int {
	n := strings.IndexFunc(s, func(r rune) bool {
		return !(r == '_' || unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc))
	})
	if n < 0 {
		return len(s)
	}
	return n
}

func isPrefix(word string) bool {
	switch strings.ToLower(word) {
	case "r", "u", "b", "f", "br", "rb", "fr", "rf":
		return true
	}
	return false
}

// scanNumber reads a number at the beginning of a text.
func scanNumber(s string) (value any, n int, err error) {
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	digits := func(from int, is func(byte) bool) int {
		i := from
		for i < len(s) && (is(s[i]) || s[i] == '_' && i > from && s[i-1] != '_' && i+1 < len(s) && is(s[i+1])) {
			i++
		}
		return i
	}
	if len(s) > 1 && s[0] == '0' && strings.IndexByte("xXoObB", s[1]) >= 0 {
		base, is := 16, func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
		switch s[1] | 0x20 {
		case 'o':
			base, is = 8, func(c byte) bool { return c >= '0' && c <= '7' }
		case 'b':
			base, is = 2, func(c byte) bool { return c == '0' || c == '1' }
		}
		from := 2
		if from < len(s) && s[from] == '_' {
			from++
		}
		n = digits(from, is)
		v, ok := new(big.Int).SetString(strings.ReplaceAll(s[from:n], "_", ""), base)
		if !ok || endsInName(s[n:]) {
			return nil, 0, errSyntax
		}
		return v, n, nil
	}
	n = digits(0, isDigit)
	whole := true
	if n < len(s) && s[n] == '.' {
		whole = false
		n = digits(n+1, isDigit)
	}
	if n < len(s) && s[n]|0x20 == 'e' {
		m := n + 1
		if m < len(s) && (s[m] == '+' || s[m] == '-') {
			m++
		}
		if end := digits(m, isDigit); end > m {
			whole, n = false, end
		}
	}
	text := strings.ReplaceAll(s[:n], "_", "")
	if n < len(s) && s[n]|0x20 == 'j' {
		if endsInName(s[n+1:]) {
			return nil, 0, errSyntax
		}
		f, _ := strconv.ParseFloat(text, 64)
		return imaginary(f), n + 1, nil
	}
	if endsInName(s[n:]) {
		return nil, 0, errSyntax
	}
	if whole {
		if len(text) > 1 && text[0] == '0' && strings.Trim(text, "0") != "" || len(text) > 4300 {
			return nil, 0, errSyntax
		}
		v, _ := new(big.Int).SetString(text, 10)
		return v, n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil, 0, errSyntax
	}
	return f, n, nil
}

// endsInName reports whether a number runs into a name, which Python refuses unless the
// name is a keyword that may follow: it warns then.
func endsInName(rest string) bool {
	if !isNameStart(rest) && (rest == "" || rest[0] != '_') {
		return false
	}
	switch rest[:nameLength(rest)] {
	case "and", "else", "for", "if", "in", "is", "not", "or":
		return false
	}
	return true
}

// scanString reads a literal at i, behind its prefix.
func (p *parser) scanString(prefix string, i *int, start int) error {
	s := p.text
	quote := s[*i : *i+1]
	if strings.HasPrefix(s[*i:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	at := *i + len(quote)
	end := -1
	for j := at; j < len(s); j++ {
		switch {
		case s[j] == '\\':
			j++
			if j+1 < len(s) && s[j] == '\r' && s[j+1] == '\n' {
				j++
			}
			continue
		case (s[j] == '\n' || s[j] == '\r') && len(quote) == 1:
			return errSyntax
		case strings.HasPrefix(s[j:], quote):
			end = j
		}
		if end >= 0 {
			break
		}
	}
	if end < 0 {
		return errSyntax
	}
	*i = end + len(quote)
	body := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s[at:end])
	if strings.Contains(prefix, "f") {
		p.tokens = append(p.tokens, token{formatToken, "", nil, start, *i})
		return nil
	}
	if strings.Contains(prefix, "b") {
		for k := 0; k < len(body); k++ {
			if body[k] >= 0x80 {
				return errSyntax
			}
		}
	}
	value, err := unescape(body, strings.Contains(prefix, "r"), strings.Contains(prefix, "b"))
	if err != nil {
		return err
	}
	var v any = value
	if strings.Contains(prefix, "b") {
		v = byteString(value)
	}
	p.tokens = append(p.tokens, token{valueToken, "", v, start, *i})
	return nil
}

// unescape reads the escapes of a literal. Half a pair of UTF-16 becomes U+FFFD here.
func unescape(s string, raw, bytes bool) (string, error) {
	if raw || !strings.Contains(s, "\\") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", errSyntax
		}
		digits := 0
		switch c := s[i]; c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a', 'b', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", c)])
		case 'x':
			digits = 2
		case 'u', 'U':
			if bytes {
				b.WriteString("\\" + string(c))
				continue
			}
			digits = map[byte]int{'u': 4, 'U': 8}[c]
		case 'N':
			if bytes {
				b.WriteString("\\N")
				continue
			}
			return "", errSyntax // names of characters are not known here
		case '0', '1', '2', '3', '4', '5', '6', '7':
			j := i
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			v, _ := strconv.ParseInt(s[i:j], 8, 32)
			b.WriteRune(rune(v))
			i = j - 1
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
		if digits > 0 {
			if i+digits >= len(s) {
				return "", errSyntax
			}
			v, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || v > unicode.MaxRune {
				return "", errSyntax
			}
			b.WriteRune(rune(v))
			i += digits
		}
	}
	return b.String(), nil
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) && (p.tokens[p.at].kind == operatorToken || p.tokens[p.at].kind == nameToken) {
		return p.tokens[p.at].text
	}
	return ""
}

func (p *parser) take(text string) bool {
	if text != "" && p.peek() == text {
		p.at++
		return true
	}
	return false
}

func (p *parser) need(text string) error {
	if !p.take(text) {
		return errSyntax
	}
	return nil
}

// source is the text from a token to the last that was taken.
func (p *parser) source(from int) string {
	return p.text[p.tokens[from].start:p.tokens[p.at-1].end]
}

// tupleOrOne reads an expression, or several with commas, up to a token that is not taken.
func (p *parser) tupleOrOne(end string) (expr, error) {
	first, err := p.starred()
	if err != nil {
		return nil, err
	}
	if p.peek() != "," {
		if _, isStar := first.(star); isStar {
			return nil, errSyntax
		}
		return first, nil
	}
	items := []expr{first}
	for p.take(",") {
		if p.at == len(p.tokens) || end != "" && p.peek() == end {
			break
		}
		item, err := p.starred()
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return tuple{items}, nil
}

type star struct{ of expr }

func (p *parser) starred() (expr, error) {
	if p.take("*") {
		e, err := p.binary(0)
		return star{e}, err
	}
	return p.named()
}

// named reads an expression, or NAME := expression.
func (p *parser) named() (expr, error) {
	from := p.at
	if p.at+1 < len(p.tokens) && p.tokens[p.at].kind == nameToken && !isKeyword(p.tokens[p.at].text) && p.tokens[p.at+1].text == ":=" {
		p.at += 2
		if _, err := p.expression(); err != nil {
			return nil, err
		}
		return other{p.source(from)}, nil
	}
	return p.expression()
}

// expression reads lambda, conditions and everything that binds closer.
func (p *parser) expression() (expr, error) {
	if p.depth++; p.depth > 3*maxNesting {
		return nil, errSyntax
	}
	defer func() { p.depth-- }()
	from := p.at
	if p.take("lambda") {
		for p.peek() != ":" { // parameters are not looked at
			if p.at == len(p.tokens) {
				return nil, errSyntax
			}
			p.at++
		}
		p.at++
		if _, err := p.expression(); err != nil {
			return nil, err
		}
		return other{p.source(from)}, nil
	}
	e, err := p.or()
	if err != nil || !p.take("if") {
		return e, err
	}
	if _, err := p.or(); err != nil {
		return nil, err
	}
	if err := p.need("else"); err != nil {
		return nil, err
	}
	if _, err := p.expression(); err != nil {
		return nil, err
	}
	return other{p.source(from)}, nil
}

// or reads or, and, not and comparisons, none of which has a value here.
func (p *parser) or() (expr, error) {
	from := p.at
	e, err := p.not()
	if err != nil {
		return nil, err
	}
	for p.take("or") || p.take("and") {
		if _, err := p.not(); err != nil {
			return nil, err
		}
		e = other{p.source(from)}
	}
	return e, nil
}

func (p *parser) not() (expr, error) {
	if p.take("not") {
		operand, err := p.not()
		return unary{"not ", operand}, err
	}
	from := p.at
	e, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	for {
		switch {
		case p.take("<"), p.take(">"), p.take("<="), p.take(">="), p.take("=="), p.take("!="), p.take("in"):
		case p.take("is"):
			p.take("not")
		case p.peek() == "not" && p.at+1 < len(p.tokens) && p.tokens[p.at+1].text == "in":
			p.at += 2
		default:
			return e, nil
		}
		if _, err := p.binary(0); err != nil {
			return nil, err
		}
		e = other{p.source(from)}
	}
}

// levels are the binary operators, the weakest first.
var levels = [][]string{{"|"}, {"^"}, {"&"}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "//", "%", "@"}}

func (p *parser) binary(level int) (expr, error) {
	if level == len(levels) {
		return p.factor()
	}
	left, err := p.binary(level + 1)
	if err != nil {
		return nil, err
	}
next:
	for {
		for _, o := range levels[level] {
			if p.peek() == o {
				p.at++
				right, err := p.binary(level + 1)
				if err != nil {
					return nil, err
				}
				left = binary{left, o, right}
				continue next
			}
		}
		return left, nil
	}
}

func (p *parser) factor() (expr, error) {
	for _, o := range []string{"-", "+", "~"} {
		if p.take(o) {
			if p.depth++; p.depth > 3*maxNesting {
				return nil, errSyntax
			}
			defer func() { p.depth-- }()
			operand, err := p.factor()
			return unary{o, operand}, err
		}
	}
	from := p.at
	awaited := p.take("await")
	base, err := p.primary()
	if err != nil {
		return nil, err
	}
	if awaited {
		base = other{p.source(from)}
	}
	if !p.take("**") {
		return base, nil
	}
	right, err := p.factor()
	return binary{base, "**", right}, err
}

func (p *parser) primary() (expr, error) {
	e, err := p.atom()
	for err == nil {
		switch {
		case p.take("."):
			if p.at == len(p.tokens) || p.tokens[p.at].kind != nameToken || isKeyword(p.tokens[p.at].text) {
				return nil, errSyntax
			}
			e = attribute{e, p.tokens[p.at].text}
			p.at++
		case p.take("("):
			e, err = p.arguments(e)
		case p.take("["):
			var index expr
			if index, err = p.slices(); err == nil {
				e = subscript{e, index}
			}
		default:
			return e, nil
		}
	}
	return nil, err
}

// slices reads what stands in the brackets of a subscript.
func (p *parser) slices() (expr, error) {
	var items []expr
	comma := false
	for !p.take("]") {
		if p.at == len(p.tokens) {
			return nil, errSyntax
		}
		from, isSlice := p.at, false
		var item expr
		var err error
		if p.peek() != ":" {
			if item, err = p.starred(); err != nil {
				return nil, err
			}
		}
		for n := 0; n < 2 && p.take(":"); n++ {
			isSlice = true
			if next := p.peek(); next != ":" && next != "," && next != "]" {
				if _, err := p.expression(); err != nil {
					return nil, err
				}
			}
		}
		if isSlice {
			item = other{p.source(from)}
		}
		items = append(items, item)
		if comma = p.take(","); !comma && p.peek() != "]" {
			return nil, errSyntax
		}
	}
	switch {
	case len(items) == 0:
		return nil, errSyntax
	case len(items) == 1 && !comma:
		return items[0], nil
	}
	return tuple{items}, nil
}

// arguments reads the arguments of a call, behind the bracket.
func (p *parser) arguments(function expr) (expr, error) {
	c := call{function: function}
	doubled := false // after ** neither * nor positional ones follow
	for !p.take(")") {
		if p.at == len(p.tokens) {
			return nil, errSyntax
		}
		from := p.at
		switch {
		case p.take("**"):
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			c.keywords, doubled = append(c.keywords, keyword{"", e}), true
		case p.take("*"):
			e, err := p.expression()
			if err != nil || doubled {
				return nil, errSyntax
			}
			c.positional = append(c.positional, star{e})
		case p.at+1 < len(p.tokens) && p.tokens[p.at].kind == nameToken && p.tokens[p.at+1].kind == operatorToken && p.tokens[p.at+1].text == "=":
			word := p.tokens[p.at].text
			if isKeyword(word) {
				return nil, errSyntax
			}
			p.at += 2
			e, err := p.expression()
			if err != nil {
				return nil, err
			}
			c.keywords = append(c.keywords, keyword{word, e})
		default:
			e, err := p.named()
			if err != nil || len(c.keywords) > 0 {
				return nil, errSyntax
			}
			if comprehended, err := p.comprehension(); err != nil {
				return nil, err
			} else if comprehended {
				e = other{p.source(from)}
				if len(c.positional) > 0 || p.peek() != ")" {
					return nil, errSyntax
				}
			}
			c.positional = append(c.positional, e)
		}
		if !p.take(",") && p.peek() != ")" {
			return nil, errSyntax
		}
	}
	return c, nil
}

// comprehension reads "for x in y if z" behind an expression, if it is there.
func (p *parser) comprehension() (bool, error) {
	found := false
	for {
		p.take("async")
		if !p.take("for") {
			return found, nil
		}
		found = true
		for more := true; more; more = p.take(",") {
			if p.peek() == "in" {
				break
			}
			p.take("*")
			if _, err := p.binary(0); err != nil {
				return false, err
			}
		}
		if err := p.need("in"); err != nil {
			return false, err
		}
		if _, err := p.or(); err != nil {
			return false, err
		}
		for p.take("if") {
			if _, err := p.or(); err != nil {
				return false, err
			}
		}
	}
}

func (p *parser) atom() (expr, error) {
	if p.at == len(p.tokens) {
		return nil, errSyntax
	}
	from, t := p.at, p.tokens[p.at]
	p.at++
	switch {
	case t.kind == valueToken || t.kind == formatToken:
		return p.literal(from)
	case t.kind == nameToken && t.text == "True", t.kind == nameToken && t.text == "False":
		return constant{t.text == "True"}, nil
	case t.kind == nameToken && t.text == "None":
		return constant{nil}, nil
	case t.kind == nameToken:
		if isKeyword(t.text) {
			return nil, errSyntax
		}
		return name{t.text}, nil
	case t.text == "...":
		return constant{ellipsis{}}, nil
	case t.text == "(":
		if p.take(")") {
			return tuple{}, nil
		}
		if p.peek() == "yield" {
			return nil, errSyntax
		}
		items, comma, made, err := p.items(")", from)
		switch {
		case err != nil:
			return nil, err
		case made:
			return other{p.source(from)}, nil
		case len(items) == 1 && !comma:
			if _, isStar := items[0].(star); isStar {
				return nil, errSyntax
			}
			return items[0], nil
		}
		return tuple{items}, nil
	case t.text == "[":
		if p.take("]") {
			return list{}, nil
		}
		items, _, made, err := p.items("]", from)
		if err != nil || made {
			return other{p.source(from)}, err
		}
		return list{items}, nil
	case t.text == "{":
		return p.braces(from)
	}
	return nil, errSyntax
}

// items reads expressions up to the end. Made says that it was a comprehension.
func (p *parser) items(end string, from int) (items []expr, comma, made bool, err error) {
	for {
		item, err := p.starred()
		if err != nil {
			return nil, false, false, err
		}
		if len(items) == 0 {
			if made, err = p.comprehension(); err != nil {
				return nil, false, false, err
			}
			if made {
				return nil, false, true, p.need(end)
			}
		}
		items = append(items, item)
		if comma = p.take(","); !comma {
			return items, len(items) > 1, false, p.need(end)
		}
		if p.take(end) {
			return items, true, false, nil
		}
	}
}

// braces reads a dict or a set.
func (p *parser) braces(from int) (expr, error) {
	var d dict
	if p.take("}") {
		return d, nil
	}
	isSet := false
	for n := 0; ; n++ {
		switch {
		case p.take("**"):
			e, err := p.binary(0)
			if err != nil || isSet {
				return nil, errSyntax
			}
			d.keys, d.values = append(d.keys, nil), append(d.values, e)
		default:
			key, err := p.starred()
			if err != nil {
				return nil, err
			}
			_, isStar := key.(star)
			if p.peek() == ":" && !isStar && (n == 0 || !isSet) {
				p.at++
				value, err := p.expression()
				if err != nil {
					return nil, err
				}
				d.keys, d.values = append(d.keys, key), append(d.values, value)
			} else if n > 0 && !isSet {
				return nil, errSyntax
			} else {
				isSet = true
			}
		}
		if n == 0 {
			made, err := p.comprehension()
			if err != nil {
				return nil, err
			}
			if made {
				if err := p.need("}"); err != nil {
					return nil, err
				}
				return other{p.source(from)}, nil
			}
		}
		comma := p.take(",")
		if p.take("}") {
			break
		}
		if !comma {
			return nil, errSyntax
		}
	}
	if isSet {
		return other{p.source(from)}, nil
	}
	return d, nil
}

// literal joins the strings that stand side by side.
func (p *parser) literal(from int) (expr, error) {
	first := p.tokens[from]
	_, isText := first.value.(string)
	_, isBytes := first.value.(byteString)
	if first.kind == valueToken && !isText && !isBytes {
		return constant{first.value}, nil
	}
	formatted := first.kind == formatToken
	var text strings.Builder
	for p.at = from; p.at < len(p.tokens); p.at++ {
		t := p.tokens[p.at]
		s, tText := t.value.(string)
		b, tBytes := t.value.(byteString)
		if t.kind != formatToken && !tText && !tBytes {
			break
		}
		if tBytes != isBytes {
			return nil, errSyntax
		}
		formatted = formatted || t.kind == formatToken
		text.WriteString(s + string(b))
	}
	switch {
	case formatted:
		return other{p.source(from)}, nil
	case isBytes:
		return constant{byteString(text.String())}, nil
	}
	return constant{text.String()}, nil
}

// unparse writes an expression as Python's ast.unparse does, as far as this program
// knows it.
func unparse(e expr) string {
	switch e := e.(type) {
	case constant:
		if _, ok := e.value.(ellipsis); ok {
			return "..."
		}
		return repr(e.value)
	case name:
		return e.id
	case attribute:
		if c, ok := e.of.(constant); ok {
			if _, whole := c.value.(*big.Int); whole {
				return unparse(e.of) + " ." + e.name
			}
		}
		return unparse(e.of) + "." + e.name
	case subscript:
		return unparse(e.of) + "[" + unparseIndex(e.index) + "]"
	case call:
		var args []string
		for _, a := range e.positional {
			args = append(args, unparse(a))
		}
		for _, k := range e.keywords {
			if k.name == "" {
				args = append(args, "**"+unparse(k.value))
			} else {
				args = append(args, k.name+"="+unparse(k.value))
			}
		}
		return unparse(e.function) + "(" + strings.Join(args, ", ") + ")"
	case star:
		return "*" + unparse(e.of)
	case unary:
		return e.operator + unparse(e.operand)
	case binary:
		return fmt.Sprintf("%s %s %s", unparse(e.left), e.operator, unparse(e.right))
	case list:
		return "[" + unparseAll(e.items) + "]"
	case tuple:
		if len(e.items) == 1 {
			return "(" + unparse(e.items[0]) + ",)"
		}
		return "(" + unparseAll(e.items) + ")"
	case dict:
		var pairs []string
		for i, k := range e.keys {
			if k == nil {
				pairs = append(pairs, "**"+unparse(e.values[i]))
			} else {
				pairs = append(pairs, unparse(k)+": "+unparse(e.values[i]))
			}
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	case other:
		return e.text
	}
	return ""
}

func unparseIndex(e expr) string {
	if t, ok := e.(tuple); ok && len(t.items) > 1 {
		return unparseAll(t.items)
	}
	return unparse(e)
}

func unparseAll(items []expr) string {
	var texts []string
	for _, item := range items {
		texts = append(texts, unparse(item))
	}
	return strings.Join(texts, ", ")
}
