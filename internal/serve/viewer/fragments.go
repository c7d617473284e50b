package viewer

import (
	"bytes"
	"html/template"
	"slices"
	"sync"
)

// maxFragmentBytes bounds the parts of pages that are remembered.
const maxFragmentBytes = 16 << 20

// fragments are parts of pages that were made from this state of the ledger: people walk
// through a list, and come back.
type fragments struct {
	mu    sync.Mutex
	kept  map[string]template.HTML
	order []string // the oldest first
	bytes int
}

func (f *fragments) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept, f.order, f.bytes = nil, nil, 0
}

// of gives the part of a name, made once. keep is false of one that will be another soon.
func (f *fragments) of(name string, make func() (part template.HTML, keep bool, err error)) (template.HTML, error) {
	f.mu.Lock()
	part, known := f.kept[name]
	f.mu.Unlock()
	if known {
		return part, nil
	}
	part, keep, err := make()
	if err != nil || !keep {
		return part, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.kept[name]; known {
		return part, nil
	}
	if f.kept == nil {
		f.kept = map[string]template.HTML{}
	}
	f.kept[name], f.order, f.bytes = part, append(f.order, name), f.bytes+len(part)
	for f.bytes > maxFragmentBytes && len(f.order) > 1 {
		f.bytes -= len(f.kept[f.order[0]])
		delete(f.kept, f.order[0])
		f.order = f.order[1:]
	}
	return part, nil
}

// recent are the last things that were made, by name.
type recent[T any] struct {
	mu    sync.Mutex
	kept  map[string]T
	order []string // the oldest first
}

// of gives the thing of a name, made once, and forgets the oldest of more than most. Two
// pages that need it at the same time may both make it.
func (r *recent[T]) of(name string, most int, make func() (T, error)) (T, error) {
	r.mu.Lock()
	x, known := r.kept[name]
	r.mu.Unlock()
	if known {
		return x, nil
	}
	x, err := make()
	if err != nil {
		return x, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.kept[name]; !known {
		r.order = append(r.order, name)
	}
	if r.kept == nil {
		r.kept = map[string]T{}
	}
	r.kept[name] = x
	for len(r.order) > most {
		delete(r.kept, r.order[0])
		r.order = r.order[1:]
	}
	return x, nil
}

func (r *recent[T]) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, name)
	r.order = slices.DeleteFunc(r.order, func(x string) bool { return x == name })
}

// drawn is what a template of a page gives.
func drawn(page, name string, data any) (template.HTML, error) {
	var b bytes.Buffer
	err := templates()[page].ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}
