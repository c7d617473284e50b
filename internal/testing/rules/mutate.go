package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A Mutation is a document that differs from a valid one in one place or two.
type Mutation struct {
	What string // which place, and how
	Data []byte // JSON, not in canonical spelling
}

// Mutations changes a document in every place and in many ways, then in two
// places at once as often as pairs says. The same document gives the same
// mutations. Many of them are valid: what is asked of them is that two readers
// agree.
func Mutations(document []byte, pairs int) []Mutation {
	var out []Mutation
	add := func(what string, value any) {
		data, err := json.Marshal(value)
		if err == nil {
			out = append(out, Mutation{what, data})
		}
	}
	all := edits(parse(document))
	for _, e := range all {
		root := parse(document)
		add(e.what, e.make(root))
	}
	random := rand.New(rand.NewPCG(1, uint64(len(document))))
	for range pairs {
		a, b := all[random.IntN(len(all))], all[random.IntN(len(all))]
		root := a.make(parse(document))
		if !b.fits(root) {
			continue
		}
		add(a.what+" and "+b.what, b.make(root))
	}
	return out
}

func pathText(path []any) string {
	var steps []string
	for _, step := range path {
		steps = append(steps, fmt.Sprint(step))
	}
	return strings.Join(steps, ".")
}

func parse(document []byte) any {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		panic("rules: a document to change is not JSON: " + err.Error())
	}
	return value
}

// An edit changes the value at one place.
type edit struct {
	what string
	path []any // names and indexes
	to   func(old any) (value any, keep bool)
}

// make returns the document with the change. It changes root.
func (e edit) make(root any) any {
	if len(e.path) == 0 {
		value, _ := e.to(root)
		return value
	}
	holder := find(root, e.path[:len(e.path)-1])
	switch last := e.path[len(e.path)-1].(type) {
	case string:
		object := holder.(map[string]any)
		value, keep := e.to(object[last])
		if keep {
			object[last] = value
		} else {
			delete(object, last)
		}
	case int:
		list := holder.([]any)
		if value, keep := e.to(list[last]); keep {
			list[last] = value
		}
	}
	return root
}

// fits reports whether the place is still there.
func (e edit) fits(root any) bool {
	if len(e.path) == 0 {
		return true
	}
	holder := find(root, e.path[:len(e.path)-1])
	switch last := e.path[len(e.path)-1].(type) {
	case string:
		object, ok := holder.(map[string]any)
		return ok && object != nil
	case int:
		list, ok := holder.([]any)
		return ok && last < len(list)
	}
	return false
}

func find(value any, path []any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[s]
		case int:
			list, _ := value.([]any)
			if s >= len(list) {
				return nil
			}
			value = list[s]
		}
	}
	return value
}

// edits lists the changes of every place of a value.
func edits(root any) []edit {
	var out []edit
	var walk func(value any, path []any)
	walk = func(value any, path []any) {
		at := pathText(path)
		set := func(what string, to func(any) (any, bool)) {
			out = append(out, edit{at + ": " + what, slices.Clone(path), to})
		}
		if len(path) > 0 {
			set("gone", func(any) (any, bool) { return nil, false })
		}
		for _, v := range strangers {
			// A copy: the second change of a pair may be inside it.
			set(fmt.Sprintf("%.40v", v), func(any) (any, bool) { return parse(compact(v)), true })
		}
		switch v := value.(type) {
		case string:
			editText(set)
		case float64:
			editNumber(set)
		case []any:
			editList(set)
			for i, item := range v {
				walk(item, append(slices.Clone(path), i))
			}
		case map[string]any:
			editObject(set)
			for _, name := range sortedNames(v) {
				walk(v[name], append(slices.Clone(path), name))
			}
		}
	}
	walk(root, nil)
	return out
}

// strangers are put in the place of every value.
var strangers = []any{
	nil, true, false, 0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 1.5, 1e9, 1e9 + 1, 1e21, float64(maxCount), "", "x", "a b", "a/b", "../a", "TB-9", "live", "passed", "bronze",
	"selfReported", "blake3:00", "2026-05-12T14:00:00.000Z", "2026-05-12T14:00:00Z", "2026-02-30T14:00:00.000Z", "a\u202eb", "a\nb", "é",
	[]any{}, []any{"x"}, []any{"x", "x"}, map[string]any{}, map[string]any{"zzz": 1.0},
}

type setter = func(what string, to func(any) (any, bool))

func editText(set setter) {
	change := func(what string, to func(string) string) {
		set(what, func(old any) (any, bool) {
			text, _ := old.(string)
			return to(text), true
		})
	}
	change("longer", func(s string) string { return s + "x" })
	change("shorter", func(s string) string { return s[:max(0, len(s)-1)] })
	change("a blank after", func(s string) string { return s + " " })
	change("in capitals", strings.ToUpper)
	change("zeros", func(s string) string {
		prefix, _, _ := strings.Cut(s, ":")
		return prefix + ":" + strings.Repeat("0", 64)
	})
	for _, n := range []int{100, 101, 128, 129, 200, 201, 255, 256, 300, 301, 500, 501, 512, 513, 2048, 2049, 4096, 4097, 8192, 8193} {
		set(fmt.Sprintf("%d bytes", n), func(any) (any, bool) { return strings.Repeat("x", n), true })
	}
}

func editNumber(set setter) {
	for _, by := range []float64{1, -1, 0.5, 0.0000001, 1 << 40, -(1 << 40)} {
		set(fmt.Sprintf("%+v", by), func(old any) (any, bool) {
			n, _ := old.(float64)
			return n + by, true
		})
	}
}

func editList(set setter) {
	set("its first twice", func(old any) (any, bool) {
		list, _ := old.([]any)
		if len(list) == 0 {
			return list, true
		}
		return append([]any{list[0]}, list...), true
	})
	set("without its first", func(old any) (any, bool) {
		list, _ := old.([]any)
		return list[min(1, len(list)):], true
	})
	for _, n := range []int{64, 65, 256, 257, 4096, 4097} {
		set(fmt.Sprintf("%d texts", n), func(any) (any, bool) {
			var list []any
			for i := range n {
				list = append(list, fmt.Sprintf("t%d", i))
			}
			return list, true
		})
	}
}

func editObject(set setter) {
	with := func(what, name string, value any) {
		set(what, func(old any) (any, bool) {
			copied := map[string]any{}
			object, _ := old.(map[string]any)
			for k, v := range object {
				copied[k] = v
			}
			copied[name] = value
			return copied, true
		})
	}
	with("one more", "zzz", 1.0)
	with("one more text", "more", "x")
	with("a name that no score may have", "llm_grade", 1.0)
	set("names in capitals", func(old any) (any, bool) {
		copied := map[string]any{}
		object, _ := old.(map[string]any)
		for k, v := range object {
			copied[strings.ToUpper(k[:min(1, len(k))])+k[min(1, len(k)):]] = v
		}
		return copied, true
	})
	for _, n := range []int{256, 257} {
		set(fmt.Sprintf("%d members", n), func(any) (any, bool) {
			many := map[string]any{}
			for i := range n {
				many[fmt.Sprintf("m%d", i)] = 0.5
			}
			return many, true
		})
	}
}
