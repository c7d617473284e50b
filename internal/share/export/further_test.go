package export

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/formats/export.md")

const exportPage = "../../../docs/formats/export.md"

// tableOf is the table of docs/formats/export.md.
func tableOf(list []*Format) string {
	var b strings.Builder
	b.WriteString("| Format | Files | Imports again |\n|---|---|---|\n")
	for _, f := range list {
		again := "–"
		if f.ImportsAgain {
			again = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, f.Files, again)
	}
	return b.String()
}

// TestExportPageListsTheFormats compares the page with the rows. With -update, as
// "make docs" runs it, it writes the table.
func TestExportPageListsTheFormats(t *testing.T) {
	page, err := os.ReadFile(exportPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), "| Format | Files |")
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table of formats")
	}
	want := before + tableOf(formats) + "\n" + after
	if *update {
		if err := os.WriteFile(exportPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Error(`the table of docs/formats/export.md is not that of the program; run "make docs" and read the diff`)
	}
}

// TestAFurtherFormatIsOneFileAndOneRow adds one to a copy of the table.
func TestAFurtherFormatIsOneFileAndOneRow(t *testing.T) {
	asked := Request{Format: "haiku", Withhold: true, Out: true}
	if asked.Validate() == nil {
		t.Error("it is taken without its row")
	}
	before := formats
	formats = append(slices.Clone(formats), &Format{Name: "haiku", Is: "three lines", Files: "`haiku.txt`", Folder: true,
		Write: func(a *Facts, _ Hub) ([]File, error) { return []File{{Name: "haiku.txt", Data: []byte(a.ID)}}, nil }})
	t.Cleanup(func() { formats = before })

	if err := asked.Validate(); err != nil {
		t.Error(err)
	}
	if err := (Request{Format: "haiku"}).Validate(); err == nil || !strings.Contains(err.Error(), "needs -o") {
		t.Errorf("without -o: %v", err)
	}
	f, err := Find("haiku")
	if err != nil || !slices.Contains(All(), "haiku") {
		t.Fatalf("it is not listed: %q, %v", All(), err)
	}
	files, err := f.Write(attempt(1), Hub{})
	if err != nil || len(files) != 1 || string(files[0].Data) != attempt(1).ID {
		t.Errorf("it is written as %q, %v", files, err)
	}
	if !strings.HasSuffix(tableOf(formats), "| `haiku` | `haiku.txt` | – |\n") {
		t.Error("the document does not list it")
	}
}
