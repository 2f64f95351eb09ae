package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"colophon/ledger/record/formats"
)

type line struct {
	file   string
	number int // line number, starting at 1
	// element is true if the line is an element of an array or a row of a table. In that case,
	// number counts elements or rows.
	element bool
	kind    string              // the kind that the line states; empty if it states none
	format  bool                // the line has a format: the server converts it, and determines the kind
	text    []byte              // without the newline
	entry   *formats.Conversion // conversion of a native value; nil for records
}

func (l *line) place() string {
	place := fmt.Sprintf("%s:%d", l.file, l.number)
	if l.element {
		place = fmt.Sprintf("%s: record %d", l.file, l.number)
	}
	if l.entry != nil && l.entry.Name != "" {
		place += ": " + l.entry.Name
	}
	return place
}

type input struct {
	name    string // "-" is the standard input
	stdin   io.Reader
	maxLine int         // in bytes
	read    func(n int) // called with the number of bytes read; may be nil
}

// lines yields the lines that are not blank. If a line causes an error, lines yields the error
// with that line, and continues if the file can still be read.
func (in *input) lines() iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		at := line{file: in.name, number: 1}
		plain, err := in.open()
		if err != nil {
			yield(at, err)
			return
		}
		defer plain.Close()
		buffer := bufio.NewReaderSize(plain, 256<<10)
		skipMark(buffer)
		in.linesOf(buffer, at, yield)
	}
}

// byteOrderMark is the UTF-8 byte order mark, which some programs put at the beginning of a file.
var byteOrderMark = []byte("\xef\xbb\xbf")

func skipMark(buffer *bufio.Reader) {
	if start, _ := buffer.Peek(len(byteOrderMark)); bytes.Equal(start, byteOrderMark) { // the next read returns an error again
		_, _ = buffer.Discard(len(start))
	}
}

// linesOf is like lines, but reads a file that is already open. at is the position of the first
// line.
func (in *input) linesOf(buffer *bufio.Reader, at line, yield func(line, error) bool) {
	var err error
	for ; ; at.number++ {
		at.text, err = readLine(buffer, in.maxLine)
		switch {
		case errors.Is(err, errTooLong):
			if !yield(at, fmt.Errorf("%w (the limit is %d bytes) and was not sent", err, in.maxLine)) {
				return
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			yield(at, fmt.Errorf("the file is truncated or damaged at this line; the rest of the file was not sent: %w", err))
			return
		}
		if len(bytes.TrimSpace(at.text)) > 0 && !yield(at, nil) {
			return
		}
		if err != nil {
			return
		}
	}
}

var errTooLong = errors.New("the line is too long")

// readLine returns the next line without its line feed. If the line is longer than limit bytes, readLine
// skips it and returns errTooLong. The last line can be returned together with io.EOF.
func readLine(in *bufio.Reader, limit int) (line []byte, err error) {
	tooLong := false
	for {
		part, err := in.ReadSlice('\n')
		text := bytes.TrimSuffix(part, []byte("\n"))
		if tooLong = tooLong || len(line)+len(text) > limit; !tooLong {
			line = append(line, text...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong // if the file ends here, the next call returns io.EOF
		}
		return line, err
	}
}

// Magic numbers of the compression formats.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// maxWindow limits the memory that decompressing a zstd file may require, in bytes.
const maxWindow = 128 << 20

// open opens the file and, if its first bytes show that it is compressed, decompresses it.
func (in *input) open() (io.ReadCloser, error) {
	file := io.NopCloser(in.stdin)
	if in.name != "-" {
		f, err := os.Open(in.name)
		if err != nil {
			return nil, err
		}
		file = f
	}
	counted := bufio.NewReaderSize(&countingReader{file, in.read}, 64<<10)
	plain, err := decompress(counted)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &decompressedFile{plain, file}, nil
}

func decompress(in *bufio.Reader) (io.ReadCloser, error) {
	start, err := in.Peek(len(zstdMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, gzipMagic):
		return gzip.NewReader(in)
	case bytes.HasPrefix(start, zstdMagic):
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(in), nil
}

// decompressedFile reads decompressed data. Closing it also closes the underlying file.
type decompressedFile struct {
	io.ReadCloser
	file io.Closer
}

func (s *decompressedFile) Close() error { return errors.Join(s.ReadCloser.Close(), s.file.Close()) }

// countingReader calls count with the number of bytes that each Read returns.
type countingReader struct {
	io.Reader
	count func(n int)
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.count != nil {
		r.count(n)
	}
	return n, err
}
