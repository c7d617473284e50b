package evidence

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
)

var update = flag.Bool("update", false, "write docs/formats/records.md")

// valueRules are what Validate checks beyond the types, in words. A record
// with a rule that is not here is a page that is not true.
var valueRules = map[Kind][]string{
	LedgerOpened:          {"`origin` is a ledger's name ([ledger.md](ledger.md)); `signers` is not empty."},
	SignersChangedKind:    {"`version` is 2 or more; at least two `signatures`."},
	KeyPublishedKind:      {"`purpose` and `key` are not empty."},
	AttemptRegisteredKind: {"`schema_version` is 1; `number`, `plan.case_count` and `plan.repeat` are 1 or more; `mode` is `replay` or `live`.", "`plan` has either `cases`, as many as `case_count` and no id twice, or `cases_digest`.", "No string is empty."},
	CaseStartedKind:       {"`repeat` and `execution` are 1 or more; no string is empty."},
	CaseScoredKind:        {"`schema_version` is 1; `repeat` and `execution` are 1 or more; counts are 0 or more; `finished_at` is not before `started_at`.", "`outcome` is `passed`, `failed`, `skipped`, `errored`, `unscored` or `truncated`. `score` is there exactly for the first two, with the same `passed`; for the others `reason` is."},
	AttemptFinishedKind:   {"`schema_version` is 1; the keys of `outcomes` are outcomes, their counts 0 or more."},
	AttemptReproducedKind: {"`divergence` is there exactly when `agrees` is false."},
	ScoreAmendedKind:      {"`entry` is 0 or more; `author` and `reason` are not empty."},
	JudgeDrawnKind:        {"`draw` is 1 or more; no string but `attempt` is empty."},
	CassetteRecordedKind:  {"`provenance` is `recorded`, `edited` or `authored`; counts are 0 or more."},
	CasePendingKind:       {"No string is empty."},
	CaseAcceptedKind:      {"At least two `signatures`; no string is empty."},
	AnchorPublishedKind:   {"`size` is 1 or more."},
	IntegrityEventKind:    {"`severity` is `block`, `warn` or `info`; `boundary` is `TB-1` to `TB-8`."},
	RecommendationKind:    {"`requires_human_approval` is true."},
	ApplyBlockedKind:      {"No string is empty."},
	NoteKind:              {"Any members."},
}

// TestRecordsPage writes docs/formats/records.md from the types and compares.
func TestRecordsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Records

The bodies of ledger entries ([ledger.md](ledger.md)), written from the program's own types by a test. A member without "may be absent" is always there, empty lists and objects included; one that may be absent is left out when it is empty, and only then. *digest* is a string as in [digests.md](digests.md), *time* as in ledger.md, *count* a whole number.
`)
	for _, k := range Kinds() {
		rules, ok := valueRules[k]
		if !ok {
			t.Errorf("%s: say in words what its Validate checks", k)
		}
		fmt.Fprintf(&b, "\n## %s\n\n", k)
		body := reflect.TypeOf(newBody(k)).Elem()
		if body.Kind() == reflect.Struct {
			b.WriteString("| Member | Type | |\n|---|---|---|\n")
			members(&b, body, "")
			b.WriteString("\n")
		}
		b.WriteString(strings.Join(rules, "\n\n") + "\n")
	}
	b.WriteString("\n## A score\n\n| Member | Type | |\n|---|---|---|\n")
	members(&b, reflect.TypeFor[Score](), "")
	fmt.Fprintf(&b, "\n`score` is from 0 to 1, `cost_usd` is 0 or more with at most six decimals, `duration_seconds` 0 or more. At most %d breakdown keys and %d failure modes, each of 1 to %d bytes, none with one of the words %s in it.\n",
		maxBreakdown, maxFailureModes, maxScoreName, "`"+strings.Join(bannedWords, "`, `")+"`")

	page := filepath.Join("..", "..", "docs", "formats", "records.md")
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s does not match the types; run \"go test ./internal/evidence -run RecordsPage -update\" and read the diff", page)
	}
}

// members writes a row for each member, those of nested objects included.
func members(b *strings.Builder, t reflect.Type, prefix string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		note := ""
		if strings.Contains(options, "omit") {
			note = "may be absent"
		}
		typ := f.Type
		for typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, name, word(typ), note)
		if nested := element(typ); nested.Kind() == reflect.Struct && word(nested) == "object" && nested != reflect.TypeFor[Score]() {
			members(b, nested, prefix+name+".")
		}
	}
}

func element(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Slice && t != reflect.TypeFor[canon.RawMessage]() {
		return t.Elem()
	}
	return t
}

func word(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[digest.ID]():
		return "digest `sha256:`"
	case reflect.TypeFor[digest.Content]():
		return "digest `blake3:`"
	case reflect.TypeFor[Time]():
		return "time"
	case reflect.TypeFor[canon.RawMessage]():
		return "any JSON value"
	case reflect.TypeFor[Score]():
		return "a score (below)"
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "count"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + word(t.Elem())
	case reflect.Map:
		return "object of " + word(t.Elem())
	}
	return "object"
}
