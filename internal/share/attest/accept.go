package attest

import (
	"fmt"

	"tallystick/internal/record/digest"
)

// leastMilliseconds is March 1973 in milliseconds, and the year 5138 in seconds: what is
// less is a time in seconds. Bodies that were signed with one keep verifying; no new one
// is accepted or signed.
const leastMilliseconds = 100_000_000_000

// Accept checks a body as everyone does who takes one to sign or to list it: the rules
// of its schema, the runner's proof if it has one, and what a body that is made today
// must not say. There is one such check, so that what a dry run finds valid is minted,
// and what is minted is valid in a dry run. The report names every problem; the error is
// there if there is one, and without a report the bytes are not JSON.
func Accept(data []byte, t Trust) (*Report, *Body, error) {
	text, err := canonicalize("body", data)
	if err != nil {
		return nil, nil, err
	}
	report, err := accept(text)
	if err != nil {
		return report, nil, err
	}
	s, err := openSubject(text)
	if err != nil {
		return report, nil, err
	}
	if s.secured {
		if _, err := s.verifyRunner(digest.IDOf(text), t); err != nil {
			err = inDocument("signed body", err)
			report.add("/proof", "%v", err)
			report.Valid = false
			return report, nil, err
		}
	}
	return report, s.body, nil
}

// accept is [Accept] for everything but the proof.
func accept(text []byte) (*Report, error) {
	d, err := openDocument(text)
	if err != nil {
		report := &Report{}
		if text[0] == '{' {
			report.add("/proof", "must be a proof or a list of them")
		} else {
			report.add("", "must be object")
		}
		return report, fmt.Errorf("body: %w", err)
	}
	report := checkBody(d.rest)
	if report.Valid {
		report.dates(d.rest)
	}
	return report, report.refuse()
}

// dates refuses times in seconds.
func (r *Report) dates(text []byte) {
	var space room
	list := members(&space, text)
	for _, name := range []string{"submittedAt", "completedAt"} {
		if at, ok := numberOf(find(list, name)); ok && at < leastMilliseconds {
			r.add("/"+name, "must be milliseconds since 1970 began; %.0f would be in 1973 or before, and looks like seconds", at)
			r.Valid = false
		}
	}
}

// acceptable refuses a body that is to be signed.
func acceptable(text []byte) error {
	_, err := accept(text)
	return err
}
