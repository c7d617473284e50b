package sqlresult

import (
	"errors"
	"fmt"
	"strings"
)

// refused are words that may stand nowhere in a query, and why.
var refused = map[string]string{
	"attach": "reaches other files", "detach": "reaches other files", "pragma": "changes settings", "vacuum": "writes files", "load_extension": "loads programs",
	"readfile": "reads files", "writefile": "writes files", "edit": "runs programs", "fts3_tokenizer": "reaches memory", "sqlite_dbpage": "reaches pages", "dbstat": "reaches pages",
	"insert": "changes the database", "update": "changes the database", "delete": "changes the database",
	"create": "changes the database", "drop": "changes the database", "alter": "changes the database", "reindex": "changes the database", "analyze": "changes the database",
}

// check refuses a text that is not one SELECT, WITH or VALUES, or uses a word that is
// refused. It is the first of several walls: writing is switched off and limits are
// set in the database as well.
func check(query string) error {
	tokens, err := tokensOf(query)
	if err != nil {
		return err
	}
	for len(tokens) > 0 && tokens[len(tokens)-1].text == ";" {
		tokens = tokens[:len(tokens)-1]
	}
	if len(tokens) == 0 {
		return errors.New("it is empty")
	}
	if first := tokens[0].text; first != "select" && first != "with" && first != "values" {
		return fmt.Errorf("it begins with %.40q, expected SELECT, WITH or VALUES", first)
	}
	for _, t := range tokens {
		switch why := refused[t.text]; {
		case t.kind == literal: // is data
		case t.text == ";":
			return errors.New("it has several statements, expected one")
		case why != "":
			return fmt.Errorf("it uses %s, which %s", t.text, why)
		case strings.HasPrefix(t.text, "pragma_"):
			return fmt.Errorf("it uses %.40s, which reaches settings", t.text)
		}
	}
	return nil
}

// kinds of tokens.
const (
	word    = iota // an identifier or keyword, in lower case; or one character
	quoted         // an identifier in quotes, in lower case
	literal        // a text
)

type token struct {
	kind int
	text string
}

// tokensOf takes a query apart as SQLite does: comments are left out, quotes end where
// SQLite ends them.
func tokensOf(s string) ([]token, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return nil, errors.New("it has a zero byte, after which SQLite reads nothing")
	}
	var out []token
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
		case strings.HasPrefix(s[i:], "--"):
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return out, nil
			}
			i += n
		case strings.HasPrefix(s[i:], "/*"):
			n := strings.Index(s[i+2:], "*/")
			if n < 0 {
				return nil, errors.New("a comment has no end")
			}
			i += n + 4
		case c == '\'' || c == '"' || c == '`' || c == '[':
			text, n := inQuotes(s[i:])
			if n == 0 {
				return nil, fmt.Errorf("a %c has no end", c)
			}
			kind := quoted
			if c == '\'' {
				kind = literal
			} else {
				text = strings.ToLower(text)
			}
			out = append(out, token{kind, text})
			i += n
		case isWord(c):
			n := i
			for n < len(s) && isWord(s[n]) {
				n++
			}
			out = append(out, token{word, strings.ToLower(s[i:n])})
			i = n
		default:
			out = append(out, token{word, string(c)})
			i++
		}
	}
	return out, nil
}

// inQuotes returns the text between quotes and how many bytes it takes with them; 0 if
// they do not end. A doubled quote stands for itself.
func inQuotes(s string) (string, int) {
	end := s[0]
	if end == '[' {
		end = ']'
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		if s[i] != end {
			b.WriteByte(s[i])
			continue
		}
		if end != ']' && i+1 < len(s) && s[i+1] == end {
			b.WriteByte(end)
			i++
			continue
		}
		return b.String(), i + 1
	}
	return "", 0
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
