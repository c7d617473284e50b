// Command gen writes the checks of our documents as Go, from the rules in
// docs/formats/rules: one rules_gen.go in each package that has such documents.
//
//	go run ./internal/testing/rules/gen
//
// It reads the packages' source and does not compile them, so it also runs when
// a member was renamed and the old rules_gen.go no longer builds. Where a Go
// type and its rules differ, in the names of members, in which are optional or
// in what they hold, it writes nothing and says so.
//
// docs/formats/verify.py and internal/testing/rules read the same rules without
// this program; tests hold what it writes to both.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// A target is a package and the rules of its documents.
type target struct {
	Dir   string // of the package, from the top of the tree
	Rules string // in docs/formats/rules

	// Types are the Go types of documents and shapes that are not called as the
	// document is: case.scored is a CaseScored by itself. "-" is a document that
	// is checked by hand; the README of the rules lists them.
	Types map[string]string
	// Method is what checks a document. What checks a type inside one is called
	// validate, but for those that other packages check too.
	Method   string
	Exported []string
	// Held are the Go types that read no text but the right ones, with what
	// their shapes have: a form, a pattern or words.
	Held map[string]string
	// Forms are the functions that return an error for a text that is not of
	// the form, or does not fit the pattern.
	Forms map[string]string
	// Words are the functions that return an error for a text that is not one
	// of the words of its type, where they say more than which there are.
	Words map[string]string
	// Look is the function that makes names equal that look alike.
	Look string
	// Sorted goes over maps in the order of their names, so that of two errors
	// the same is always the first.
	Sorted bool
	// Found says in errors that a value was found, where its name stands before
	// a colon: a path in a file that people write.
	Found bool
	// Imports are the packages that Forms, Words and Look need.
	Imports []string
}

var targets = []target{
	{
		Dir: "internal/record/evidence", Rules: "records.json", Method: "Validate",
		Types: map[string]string{
			"ledger.opened": "Opened", "promotion.recommendation.emitted": "Recommendation", "promotion.apply.blocked": "ApplyBlocked",
			"registry.api_key": "RegistryAPIKey", "index": "CaseFiles", "issue": "RepositoryIssue", "entry": "-",
		},
		Exported: []string{"CaseFiles", "Floor", "RepositoryIssue", "Score", "StopEarly"},
		Held:     map[string]string{"digest.ID": "sha256", "digest.Content": "blake3", "Time": "time"},
		Forms:    map[string]string{"origin": "CheckOrigin", "objective": "checkObjective"},
	},
	{
		Dir: "internal/run/trajectory", Rules: "events.json", Method: "Validate",
		Types: map[string]string{"error": "Failure", "handoff": "HandedOff", "line": "-"},
		Held: map[string]string{
			"digest.ID": "sha256", "digest.Content": "blake3", "policy.Mode": "restricted approved autonomous", "policy.ShortHash": "[0-9a-f]{16}",
		},
	},
	{
		Dir: "internal/run/bench", Rules: "bench.json", Method: "validate",
		Types: map[string]string{"digests": "CaseDigests"},
		Held:  map[string]string{"digest.ID": "sha256", "digest.Content": "blake3", "Time": "second"},
		Forms: map[string]string{
			"name": "CheckID", "objective": "checkObjective", "visible": "checkVisible", "relative_path": "checkRelativePath",
			"origin": "evidence.CheckOrigin", "ssh_public_key": "checkRunnerKey", "no_control": "checkNoControl",
			"[*]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?": "checkGateTag",
		},
		Words: map[string]string{"evidence.Normaliser": "evidence.CheckNormaliser"},
		Look:  "plain.Fold", Sorted: true, Found: true,
		Imports: []string{"tallystick/internal/record/evidence", "tallystick/internal/record/plain"},
	},
}

const generated = "rules_gen.go"

func main() {
	for _, t := range targets {
		code, err := t.generate(".")
		if err == nil {
			err = os.WriteFile(filepath.Join(t.Dir, generated), code, 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "gen: %s: %v\n", t.Dir, err)
			os.Exit(1)
		}
	}
}
