package importer

import (
	"bytes"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// read returns the readable lines of an input, and the number of errors.
func read(t testing.TB, text []byte, maxLine int) (lines []string, failures int) {
	total := 0
	in := &input{name: "-", stdin: bytes.NewReader(text), maxLine: maxLine, read: func(n int) { total += n }}
	last := 0
	for line, err := range in.lines() {
		require.GreaterOrEqual(t, line.number, last, "line numbers must never decrease")
		last = line.number
		if err != nil {
			failures++
			continue
		}
		require.LessOrEqual(t, len(line.text), maxLine)
		lines = append(lines, string(line.text))
	}
	require.LessOrEqual(t, total, len(text))
	return lines, failures
}

func compressed(t testing.TB, encoder *zstd.Encoder, text []byte) [][]byte {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write(text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return [][]byte{zipped.Bytes(), encoder.EncodeAll(text, nil)}
}

// FuzzInput checks that the lines read from an input are those that bytes.Split returns. It also
// reads the input in compressed form, both complete and truncated.
func FuzzInput(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree"), uint16(10))
	f.Add([]byte("a line that is too long\nshort\n"), uint16(5))
	f.Add([]byte("\x1f\x8b"), uint16(1))
	f.Add([]byte("\x28\xb5\x2f\xfd"), uint16(1))
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	require.NoError(f, err)
	defer encoder.Close()
	f.Fuzz(func(t *testing.T, text []byte, limit uint16) {
		maxLine := int(limit) + 1
		_, _ = read(t, text, maxLine) // must not panic, whatever the bytes are
		if bytes.HasPrefix(text, gzipMagic) || bytes.HasPrefix(text, zstdMagic) {
			return
		}
		var want []string
		tooLong := 0
		for line := range bytes.SplitSeq(bytes.TrimPrefix(text, byteOrderMark), []byte("\n")) {
			switch {
			case len(line) > maxLine:
				tooLong++
			case len(bytes.TrimSpace(line)) > 0:
				want = append(want, string(line))
			}
		}
		got, failures := read(t, text, maxLine)
		require.Equal(t, want, got)
		require.Equal(t, tooLong, failures)
		for _, form := range compressed(t, encoder, text) {
			got, failures := read(t, form, maxLine)
			require.Equal(t, want, got)
			require.Equal(t, tooLong, failures)
			part, failures := read(t, form[:len(form)-1], maxLine)
			require.Positive(t, failures, "a truncated input must cause an error")
			require.LessOrEqual(t, len(part), len(want))
			require.True(t, slices.Equal(want[:len(part)], part), "%q", part)
		}
	})
}

// FuzzAnswer checks that no response from a server makes the reader panic.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"ledger":"default","seq":1,"kind":"ipc_record","checks":{"input_hash":{"result":"mismatch"}}}`))
	f.Add([]byte(`{"ledger":"default"}`))
	f.Fuzz(func(_ *testing.T, line []byte) { _, _ = new(answerReader).read(line) })
}
