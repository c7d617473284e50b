package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reportEdits are the edits of a report that docs/checking.md shows.
func reportEdits(page string) []string {
	cell := func(field string) string {
		at := strings.Index(page, `data-field="`+field+`"`)
		return page[strings.LastIndex(page[:at], "<") : at+strings.Index(page[at:], "</span>")+len("</span>")]
	}
	mean, failed := cell("/mean_score"), cell("/outcomes/failed")
	return []string{
		strings.Replace(page, mean, "1.000", 1),
		strings.Replace(page, failed, strings.NewReplacer(`data-field="/outcomes/failed"`, `data-field="/outcomes/errored"`, ">1<", ">–<").Replace(failed), 1),
		strings.Replace(page, "<h2>Cases</h2>", "<p><strong>All cases passed after review.</strong></p>\n<h2>Cases</h2>", 1),
	}
}

// TestPicturesOfEditedReports makes the pictures of after with -update; those of before are
// of a program that compared single values, and are made with TALLY_EDITS naming a report
// of it, and its key. Without -update it wants that all are there, are small, and stand in
// docs/checking.md.
func TestPicturesOfEditedReports(t *testing.T) {
	if *update {
		takeEditPictures(t)
	}
	doc, err := os.ReadFile("../../../docs/checking.md")
	check(t, err)
	for n := range 3 {
		for _, when := range []string{"before", "after"} {
			name := fmt.Sprintf("report-edit-%d-%s.webp", n+1, when)
			data, err := os.ReadFile(filepath.Join(pictureDir, name))
			check(t, err)
			if len(data) > maxPicture || !strings.HasPrefix(string(data), "RIFF") || !strings.Contains(string(doc), "](images/"+name+")") {
				t.Errorf("%s has %d bytes, expected WebP of at most %d that docs/checking.md shows", name, len(data), maxPicture)
			}
		}
	}
}

func takeEditPictures(t *testing.T) {
	t.Helper()
	when, page, key := "after", "", ""
	if file, k, earlier := strings.Cut(os.Getenv("TALLY_EDITS"), " "); earlier {
		when, page, key = "before", readFile(t, file), k
	} else {
		w, html := smallReport(t)
		page, key = html, w.key
	}
	for n, html := range reportEdits(page) {
		b := openFile(t, write(t, "report.html", html))
		b.look("light", 900, 420)
		b.waitFor(marked)
		b.give(key)
		b.waitFor(marked)
		b.js(`(document.querySelector("#mark details").open = false, document.activeElement.blur(), scrollTo(0, 0))`)
		check(t, os.WriteFile(filepath.Join(pictureDir, fmt.Sprintf("report-edit-%d-%s.webp", n+1, when)), b.small(), 0o644))
	}
}
