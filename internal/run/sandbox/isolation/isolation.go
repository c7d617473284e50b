// Package isolation names the classes of isolation and says what each is worth.
//
// It is plain data, for those who judge a record and run nothing. Package sandbox
// makes the classes; classes.go is written from its rows by "make docs", so that a
// new class is one file there.
package isolation

import "strings"

// A Class is a kind of isolation.
type Class struct {
	Name         string
	Between      string // what stands between the program and the host
	SharesKernel string // whether the program uses the host's kernel: yes, no, or how far
	Promotes     bool   // what ran in it counts for promotion
	Agents       bool   // it runs agents and tests, not only rubrics
	Attempts     bool   // it has the scope attempt: one sandbox for many runs
	Shows        string // what a program in it can learn of the host; "" if nothing is known
}

// Classes lists every class, strongest first.
func Classes() []Class { return classes }

// Names lists the names of [Classes].
func Names() []string {
	var names []string
	for _, c := range classes {
		names = append(names, c.Name)
	}
	return names
}

// Expected names the classes for a message, as in "a, b or c".
func Expected() string {
	names := Names()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Find returns the class of this name.
func Find(name string) (Class, bool) {
	for _, c := range classes {
		if c.Name == name {
			return c, true
		}
	}
	return Class{}, false
}

// IsWeaker reports whether a class is one that does not count for promotion.
func IsWeaker(name string) bool {
	c, known := Find(name)
	return known && !c.Promotes
}

// Promotes reports whether what ran in a class counts for promotion. What is not
// a class does not.
func Promotes(name string) bool {
	c, _ := Find(name)
	return c.Promotes
}
