package sight

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkFind is what the recorder pays for each text of a case: a request in
// JSON, ordinary text, without the answer and with it.
func BenchmarkFind(b *testing.B) {
	page := strings.Repeat("The keeper wrote of fog and of gulls, and that the lamp (no. 17) had gone out twice.\n", 240)
	request, _ := json.Marshal(map[string]any{"messages": []string{page, "What did he write of the \"lamp\"?"}})
	for _, answer := range []string{"Ulaanbaatar", "northwest-317", "Tolstoi", "42188"} {
		search := NewSearch(answer)
		for name, text := range map[string]string{"request": string(request), "page": page, "found": page + answer} {
			b.Run(answer+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					search.Find([]byte(text))
				}
			})
		}
	}
}
