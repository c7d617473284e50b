package viewer

import (
	"net/http"
	"path/filepath"
	"strconv"

	"tallystick/internal/read/results"
	"tallystick/internal/share/importer"
)

type importedData struct {
	Files []importedFile
}

type importedFile struct {
	Name, URL string
	Runs      []results.Run
	Problem   string
}

func (v *Viewer) imported(req *http.Request) (*page, error) {
	data := &importedData{}
	for i, path := range v.config.Files {
		f := importedFile{Name: path, URL: address("imported", strconv.Itoa(i+1))}
		var err error
		if f.Runs, err = importer.Read(req.Context(), []string{path}, importer.Options{}); err != nil {
			f.Problem = err.Error()
		}
		data.Files = append(data.Files, f)
	}
	return &page{Title: "Imported results", Template: "imported", Section: "Imported", Outside: true, Data: data,
		Next: []command{{What: "Show files of other harnesses here", Line: "tally view FILE..."}, {What: "Read one in the terminal", Line: "tally import FILE"}}}, nil
}

type importedRunData struct {
	Name, CompareURL string
	*importer.ShownImport
	Page  []importedRunRow
	Pager pager
}

// An importedRunRow is a row of a file and the address of its page.
type importedRunRow struct {
	importer.ShownRow
	URL string
}

func (v *Viewer) importedRun(req *http.Request) (*page, error) {
	path, err := v.importedFileOf(req)
	if err != nil {
		return nil, err
	}
	data := &importedRunData{Name: filepath.Base(path), CompareURL: address("imported", req.PathValue("id"), "compare")}
	if data.ShownImport, err = importer.ShowImported(req.Context(), path, ""); err != nil {
		return nil, err
	}
	data.Pager = newPager(req.URL.Query(), len(data.Rows), rowsOnPage)
	for _, r := range data.Rows[data.Pager.from:data.Pager.to] {
		data.Page = append(data.Page, importedRunRow{r, rowURL(req.PathValue("id"), r)})
	}
	return &page{Title: data.Name, Template: "imported_run", Section: "Imported", Outside: true, Data: data, Crumbs: []link{{Text: "Imported", URL: "/imported"}, {Text: data.Name, URL: ""}},
		Next: []command{{What: "The same in the terminal", Line: shell("tally", "show", path)}, {What: "Attest it", Line: shell("tally", "attest", path)}}}, nil
}
