// Package cheats makes labelled runs of a benchmark, honest ones and cheating
// ones, on which the rates of the audit are measured.
//
// It was written from what the checks are meant to find, by an author who had
// not read the checks: no line here was chosen because a pattern finds it or
// misses it. Keep it so. Whoever changes internal/read/audit after a miss here
// mends the class; whoever adds a class here does not look there.
//
// [Make] is deterministic: the same seed and number give the same bytes. Half
// of all runs are honest. A cheating run is an honest one in which one cheat
// was applied to some of its tasks, in a disguise, as one of four recorders
// writes it down. Its labels say which checks must fail, and which may,
// because the same act touches them too. Every other failure is a false alarm.
//
// Where it stops: texts are made of small vocabularies, programs are a page
// long, and no model took part. The rates say how the checks do on the classes
// that are listed here, not how often people cheat.
package cheats
