// Package jsonstream reads the JSON that other people's harnesses write, in one
// pass and in bounded memory.
//
// A [Reader] is pulled: the caller walks into the objects and lists that it
// knows, takes the values that it wants, and what it does not take is passed
// over without being kept. A log of many gigabytes costs one buffer.
//
//	err := r.Object(func(name string) error {
//		if name == "accuracy" {
//			number, err = r.Number()
//		}
//		return err // everything else is skipped
//	})
//
// It is looser than package canon in two places, because Python writes it: bare
// NaN and Infinity are numbers, which [Number.Float] says are not finite, and
// half of a surrogate pair in an escape becomes U+FFFD. It is as strict in the
// rest: the grammar is checked in skipped parts too, bytes that are not UTF-8
// are refused, no object may name a member twice, whether it is walked or skipped, and
// [Number.Float] refuses a number that it would have to round.
//
// Every refusal says at which line and byte it was.
package jsonstream
