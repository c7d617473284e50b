package wire

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// Each API has files in messages in a form of its own.
func TestFilesOfEachAPI(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{0, 0xff, 0xfe, 0xfb}, 10)...)
	std, url := base64.StdEncoding.EncodeToString(png), base64.RawURLEncoding.EncodeToString(png)
	if !strings.ContainsAny(std, "+/") {
		t.Fatal("the example does not show which alphabet is read")
	}
	for name, request := range map[string]string{
		"openai.chat image":       `{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,` + std + `"},"type":"image_url"}],"role":"user"}]}`,
		"openai.chat file":        `{"messages":[{"content":[{"file":{"file_data":"data:image/png;base64,` + std + `","filename":"a.png"},"type":"file"}]}]}`,
		"openai.chat audio":       `{"messages":[{"content":[{"input_audio":{"data":"` + std + `","format":"image/png"},"type":"input_audio"}]}]}`,
		"openai.responses":        `{"input":[{"content":[{"image_url":"data:image/png;base64,` + std + `","type":"input_image"}]}]}`,
		"anthropic image":         `{"messages":[{"content":[{"source":{"data":"` + std + `","media_type":"image/png","type":"base64"},"type":"image"}]}]}`,
		"anthropic in a result":   `{"messages":[{"content":[{"content":[{"source":{"data":"` + std + `","media_type":"image/png","type":"base64"},"type":"image"}],"type":"tool_result"}]}]}`,
		"gemini":                  `{"contents":[{"parts":[{"inlineData":{"data":"` + std + `","mimeType":"image/png"}}]}]}`,
		"gemini by another name":  `{"contents":[{"parts":[{"inline_data":{"data":"` + url + `","mime_type":"image/png"}}]}]}`,
		"bedrock":                 `{"messages":[{"content":[{"image":{"format":"image/png","source":{"bytes":"` + std + `"}}}]}]}`,
		"lines of base64":         `{"messages":[{"content":[{"source":{"data":"` + std[:8] + `\n` + std[8:] + `","media_type":"image/png"}}]}]}`,
		"an address in any place": `{"x":[["data:image/png;base64,` + std + `"]]}`,
	} {
		files := FilesOf([]byte(request))
		if len(files) != 1 || files[0].Type != "image/png" || !bytes.Equal(files[0].Data, png) {
			t.Errorf("%s: %+v", name, files)
		}
	}
	for name, request := range map[string]string{
		"words":                `{"messages":[{"content":"data and bytes, data:image/png"}]}`,
		"no type beside":       `{"messages":[{"content":[{"input":{"data":"` + std + `"}}]}]}`,
		"a short word":         `{"messages":[{"content":[{"input":{"data":"word","format":"x"}}]}]}`,
		"not base64":           `{"messages":[{"content":[{"source":{"data":"` + strings.Repeat("?", 40) + `","media_type":"image/png"}}]}]}`,
		"an address elsewhere": `{"messages":[{"content":[{"image_url":{"url":"https://x.example/i.png"}}]}]}`,
		"not JSON":             `{"messages":`,
	} {
		if files := FilesOf([]byte(request)); len(files) != 0 {
			t.Errorf("%s: %+v", name, files)
		}
	}
	two := fmt.Sprintf(`{"messages":[["data:image/png;base64,%s","data:text/plain;base64,aGVsbG8="]]}`, std)
	if files := FilesOf([]byte(two)); len(files) != 2 || string(files[1].Data) != "hello" || files[1].Type != "text/plain" {
		t.Errorf("two: %+v", files)
	}
}
