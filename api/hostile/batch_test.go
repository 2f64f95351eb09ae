package hostile_test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

func gzipped(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // cannot fail, because the level is valid
	_, _ = z.Write(text)                            // writing to memory cannot fail, and neither can Close
	_ = z.Close()
	return b.Bytes()
}

// zstdOf returns text as a zstd frame (RFC 8878) that consists of raw blocks, or of RLE blocks if
// all bytes are equal. window is the frame's Window_Descriptor.
func zstdOf(text []byte, window byte) []byte {
	const maxBlock, raw, repeated = 128 << 10, 0, 1
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}
	for last := uint32(0); last == 0; {
		block := text[:min(len(text), maxBlock)]
		text = text[len(block):]
		if len(text) == 0 {
			last = 1
		}
		kind, data := uint32(raw), block
		if len(block) > 1 && bytes.Count(block, block[:1]) == len(block) {
			kind, data = repeated, block[:1]
		}
		head := uint32(len(block))<<3 | kind<<1 | last
		b = append(append(b, byte(head), byte(head>>8), byte(head>>16)), data...)
	}
	return b
}

var batchTricks = []trick{
	{"compressed batch", 8, func(d *generator, r *request) bool {
		r.compress(d, r.body)
		return true
	}},
	{"damaged compression", 6, func(d *generator, r *request) bool {
		r.compress(d, r.body)
		r.body = pick(d, d.damaged(r.body), r.body[:d.IntN(len(r.body))], slices.Concat(r.body, r.body), append(r.body, "more"...))
		return true
	}},
	{"bomb", 2, func(d *generator, r *request) bool {
		if !d.chance(3) {
			return false
		}
		r.compress(d, bytes.Repeat(pick(d, []byte("0"), []byte("\n"), []byte("["), []byte(" ")), pick(d, 9<<20, 64<<20)))
		return true
	}},
	{"bad lines", 5, func(d *generator, r *request) bool {
		r.body = append(r.body, pick(d,
			"\r\n", "\n\n\n", "{}\n", "[]", "null\n", "x\n{}\n", "\x00\n", "\xff\xfe\n", `{"kind":"ipc_record"}`,
			`{"kind":"x","record":{}}`, `{"record":{},"kind":"run_dag"}`, `{"kind":"ipc_record","record":null}`,
			`{"kind":["ipc_record"],"record":{}}`, strings.Repeat("{}\n", 2000), strings.Repeat("\n", 50_000),
			string(bytes.TrimSpace(r.body)),
		)...)
		return true
	}},
	{"line too long", 1, func(d *generator, r *request) bool {
		if !d.chance(3) {
			return false
		}
		r.body = slices.Concat(r.body, bytes.Repeat([]byte(" "), 8<<20+1), []byte("\n"), r.body)
		return true
	}},
}

// compress replaces the body of a batch with text, compressed by a randomly chosen algorithm.
func (r *request) compress(d *generator, text []byte) {
	name := pick(d, "gzip", "zstd")
	r.header = append(r.header, field{"Content-Encoding", name})
	if name == "gzip" {
		r.body = gzipped(text)
		return
	}
	r.body = zstdOf(text, pick[byte](d, 0, 0x38, 0x58, 0x68, 0x80, 0xff)) // window sizes from 1 KiB to terabytes
}
