package wire

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// A File is an image, a document or a sound that stands in a request or a reply.
type File struct {
	Type string // its media type, or what the API calls its format; "" if it does not say
	Data []byte
}

// FilesOf lists the files that a canonical request holds, in the order in which they stand
// there. All APIs have base64 for them, in one of three forms: an address
// "data:TYPE;base64,…"; an object with a member of one of these names and, for the
// type, of one of those beside it; and the same with the bytes one level deeper, as
// Bedrock has them. What a request only refers to by an address or a name is not in it.
func FilesOf(request []byte) []File {
	if !mayHoldFiles(request) {
		return nil
	}
	n, err := ParseNode(request)
	if err != nil {
		return nil
	}
	var files []File
	addFiles(&n, "", &files)
	return files
}

// fileBytes are members that hold a file, if beside them, or around them, stands one of
// fileTypes that is a text.
var (
	fileBytes = map[string]bool{"data": true, "bytes": true, "file_data": true}
	fileTypes = []string{"media_type", "mime_type", "mimeType", "format"}
)

// mayHoldFiles spares most requests being read once more.
func mayHoldFiles(request []byte) bool {
	if bytes.Contains(request, []byte(";base64,")) {
		return true
	}
	for name := range fileBytes {
		if bytes.Contains(request, []byte(`"`+name+`":"`)) {
			return true
		}
	}
	return false
}

// leastFile is the shortest text that is taken for a file if no address says so: a word
// such as "data" in the arguments of a tool is none.
const leastFile = 16

func addFiles(n *Node, around string, files *[]File) {
	for i := range n.List {
		m := &n.List[i]
		if m.Kind != '"' {
			kind := ""
			if n.Kind == '{' {
				kind = typeBeside(n)
				if m.Name == "source" && kind == "" {
					kind = around
				}
			}
			addFiles(m, kind, files)
			continue
		}
		if kind, data, ok := dataAddress(m.Text); ok {
			*files = append(*files, File{kind, data})
			continue
		}
		if n.Kind != '{' || !fileBytes[m.Name] || len(m.Text) < leastFile {
			continue
		}
		kind := typeBeside(n)
		if kind == "" {
			kind = around
		}
		if data, ok := fromBase64(m.Text); ok && kind != "" {
			*files = append(*files, File{kind, data})
		}
	}
}

func typeBeside(n *Node) string {
	for _, name := range fileTypes {
		if m := n.Get(name); m != nil && m.Kind == '"' {
			return m.Text
		}
	}
	return ""
}

// dataAddress takes an address of RFC 2397 in base64 apart.
func dataAddress(text string) (kind string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(text, "data:")
	if !ok {
		return "", nil, false
	}
	head, body, ok := strings.Cut(rest, ",")
	kind, isBase64 := strings.CutSuffix(head, ";base64")
	if !ok || !isBase64 {
		return "", nil, false
	}
	data, ok = fromBase64(body)
	return kind, data, ok
}

// fromBase64 reads both alphabets, with padding and without.
func fromBase64(text string) ([]byte, bool) {
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "").Replace(text), "=")
	data, err := base64.RawStdEncoding.DecodeString(text)
	return data, err == nil && len(data) > 0
}
