//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// BenchmarkUnpack says how fast a layer becomes a verified image, and how fast tar
// unpacks the same bytes: on an idle machine, with TALLYSTICK_BENCH_MB=1024 for the
// figure of the documents.
func BenchmarkUnpack(b *testing.B) {
	megabytes, err := strconv.Atoi(os.Getenv("TALLYSTICK_BENCH_MB"))
	if err != nil {
		megabytes = 64
	}
	var layer bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	w := tar.NewWriter(&layer)
	for n := range megabytes * 8 { // files of 128 KiB, half of each random
		content := make([]byte, 128<<10)
		for i := range content[:64<<10] {
			content[i] = byte(random.Uint32())
		}
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("usr/d%03d/f%d", n/100, n), Size: int64(len(content)), Mode: 0o644})
		w.Write(content)
	}
	w.Close()
	for _, packed := range []struct {
		name, mediaType, flag string
		content               []byte
	}{{"tar", typeLayer, "-xf", layer.Bytes()}, {"gzip", typeLayerGzip, "-xzf", gzipped(layer.Bytes())}} {
		b.Run(packed.name, func(b *testing.B) {
			dir := b.TempDir()
			file := filepath.Join(dir, "layer")
			if err := os.WriteFile(file, packed.content, 0o644); err != nil {
				b.Fatal(err)
			}
			var ours, theirs time.Duration
			for n := range b.N {
				out := filepath.Join(dir, fmt.Sprint("tar", n))
				if err := os.Mkdir(out, 0o755); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				if said, err := exec.Command("tar", "-C", out, packed.flag, file).CombinedOutput(); err != nil {
					b.Fatalf("%v %s", err, said)
				}
				theirs += time.Since(began)
				s, err := OpenStore(filepath.Join(dir, fmt.Sprint("images", n)))
				if err != nil {
					b.Fatal(err)
				}
				digest, size, err := s.PutStream(bytes.NewReader(packed.content), MaxBlob)
				if err != nil {
					b.Fatal(err)
				}
				manifest, err := s.Put(fmt.Appendf(nil, `{"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`, packed.mediaType, digest, size))
				if err != nil {
					b.Fatal(err)
				}
				began = time.Now()
				if _, err := s.Unpack(filepath.Dir(s.dir), OCIRequest{Digest: manifest, Platform: ThisPlatform()}); err != nil {
					b.Fatal(err)
				}
				ours += time.Since(began)
				os.RemoveAll(out)
				os.RemoveAll(filepath.Dir(s.dir))
			}
			b.ReportMetric(theirs.Seconds()/ours.Seconds(), "of_tar")
			b.ReportMetric(float64(megabytes*b.N)/ours.Seconds(), "MB/s")
		})
	}
}
