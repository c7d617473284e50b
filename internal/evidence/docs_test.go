package evidence

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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
	AttemptRegisteredKind: {"`schema_version` is 1; `number`, `plan.case_count` and `plan.repeat` are 1 or more; `mode` is `replay` or `live`.", "`plan` has either `cases`, as many as `case_count` and no id twice, or `cases_digest`.", "`origin` is a ledger's name; no string is empty, no `id` either."},
	CaseStartedKind:       {"`repeat` and `execution` are 1 or more; no string is empty."},
	CaseScoredKind:        {"`schema_version` is 1; `repeat` and `execution` are 1 or more; counts are 0 or more; `policy.rollbacks_verified` is at most `policy.rollbacks`; `finished_at` is not before `started_at`; no string but `harness_version` is empty.", "`outcome` is `passed`, `failed`, `skipped`, `errored`, `unscored` or `truncated`. `score` is there exactly for the first two, with the same `passed`; for the others `reason` is."},
	AttemptFinishedKind:   {"`schema_version` is 1; the keys of `outcomes` are outcomes; counts are 0 or more; `mean_score` is from 0 to 1; `attempt` is not empty; each of `failure_modes` is as in a score."},
	AttemptReproducedKind: {"`divergence` is there exactly when `agrees` is false; `origin` is a ledger's name; no string is empty."},
	ScoreAmendedKind:      {"`entry` is 0 or more; `author` and `reason` are not empty."},
	JudgeDrawnKind:        {"`draw` is 1 or more; no string but `attempt` is empty."},
	CassetteRecordedKind:  {"`provenance` is `recorded`, `edited` or `authored`; counts are 0 or more; no string is empty."},
	CasePendingKind:       {"No string is empty."},
	CaseAcceptedKind:      {"At least two `signatures`; no string is empty."},
	AnchorPublishedKind:   {"`size` is 1 or more; `date` and `root` are not empty."},
	IntegrityEventKind:    {"`severity` is `block`, `warn` or `info`; `boundary` is `TB-1` to `TB-8`; `name` and `detail` are not empty."},
	RecommendationKind:    {"`requires_human_approval` is true; `class` and the tiers are not empty; `rules` is the version of [the rule book](promotion.md), from 1; `window_days` is 0 or more."},
	ApplyBlockedKind:      {"No string is empty."},
	NoteKind:              {"Any members."},
}

// TestRecordsPage writes docs/formats/records.md from the types and compares.
func TestRecordsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Records

The bodies of ledger entries ([ledger.md](ledger.md)), written from the program's own types by a test. A member without "may be absent" is always there, empty lists and objects included. One that may be absent is left out when it is false or an empty string or list; a number, digest, score or JSON value is left out when there is none, and may be 0 or null. *digest* is a string as in [digests.md](digests.md), *time* as in ledger.md, *count* a whole number. Rules about strings are not about those in lists.
`)
	for _, k := range Kinds() {
		rules, ok := valueRules[k]
		if !ok {
			t.Errorf("%s: say in words what its Validate checks", k)
		}
		fmt.Fprintf(&b, "\n## %s\n\n", k)
		body := reflect.TypeOf(NewBody(k)).Elem()
		if body.Kind() == reflect.Struct {
			b.WriteString("| Member | Type | |\n|---|---|---|\n")
			members(&b, body, "")
			b.WriteString("\n")
		}
		b.WriteString(strings.Join(rules, "\n\n") + "\n")
	}
	b.WriteString("\n## A score\n\n| Member | Type | |\n|---|---|---|\n")
	members(&b, reflect.TypeFor[Score](), "")
	fmt.Fprintf(&b, "\n`score` is from 0 to 1, `cost_usd` from 0 to 1e9 with at most six decimals, `duration_seconds` from 0 to 1e9. At most %d breakdown keys and %d failure modes, each of 1 to %d bytes, none with one of %s in it as whole words. Words end at everything that is no letter, before a capital after a small letter, and before the last capital of several that a small letter follows; case and what joins them do not matter.\n",
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

// TestSecondVerifierKnowsEveryMember compares the table in docs/formats/verify.py
// with the types: a member that it lacks would make it refuse honest ledgers.
func TestSecondVerifierKnowsEveryMember(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "docs", "formats", "verify.py"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(script), "BODIES = {")
	table, _, _ = strings.Cut(table, "}")
	for _, k := range Kinds() {
		body := reflect.TypeOf(NewBody(k)).Elem()
		if body.Kind() != reflect.Struct {
			continue
		}
		var want []string
		for f := range body.Fields() {
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(options, "omit") {
				name += "?"
			}
			want = append(want, name)
		}
		_, row, _ := strings.Cut(table, fmt.Sprintf("%q:", k))
		row, _, _ = strings.Cut(row, "\",\n")
		got := strings.Fields(strings.ReplaceAll(row, "\"", " "))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: verify.py has %v, the type has %v", k, got, want)
		}
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
