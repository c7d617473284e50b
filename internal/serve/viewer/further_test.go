package viewer

import (
	"net/http"
	"strings"
	"testing"
)

// TestAFurtherPageIsOneFileAndOneRow adds one to a copy of the table. Its template
// is one that is there: the templates of a folder are found by their names.
func TestAFurtherPageIsOneFileAndOneRow(t *testing.T) {
	v := openShop(t)
	if w := get(t, v, "/weather/monday"); w.Code != http.StatusNotFound {
		t.Errorf("it is there without its row: %d", w.Code)
	}
	madeUp := func(_ *Viewer, req *http.Request) (*page, error) {
		return &page{Title: "Weather of " + req.PathValue("day"), Template: "error", Section: "Weather", Outside: true, Data: errorData{Text: "It rains."}}, nil
	}
	v, err := Open(Config{Place: v.config.Place, pages: append(routes(), route{pattern: "/weather/{day}", show: madeUp}, route{pattern: "/weather", show: madeUp, section: "Weather"})})
	if err != nil {
		t.Fatal(err)
	}
	if w := get(t, v, "/weather/monday"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Weather of monday") || !strings.Contains(w.Body.String(), "It rains.") {
		t.Errorf("its page is %d\n%s", w.Code, w.Body)
	}
	if w := get(t, v, "/attempts"); !strings.Contains(w.Body.String(), `<a href="/weather">Weather</a>`) {
		t.Error("the other pages do not lead to it")
	}
}
