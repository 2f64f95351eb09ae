package importer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"colophon/ledger/record/pyjson"
)

// parquetMagic is the magic number at the beginning of a Parquet file.
var parquetMagic = []byte("PAR1")

var errParquet = errors.New("the input is a Parquet file; to import Phoenix spans, name the file and use --format phoenix; convert other tables to JSON Lines")

// errEmpty means that a file contains no value.
var errEmpty = errors.New(`the file is empty; it should have one record per line: {"kind": "ipc_record", "record": {…}}`)

// values yields the JSON values of a file. These are its lines, the elements of an array, or a single value
// that spans several lines. If table is true, it also accepts a CSV file and yields an object for each row.
// If a value causes an error, values yields the error with that value.
func (in *input) values(table bool) iter.Seq2[line, error] {
	return func(yield func(line, error) bool) {
		at := line{file: in.name, number: 1}
		plain, err := in.open()
		if err != nil {
			yield(at, err)
			return
		}
		defer plain.Close()
		buffer := bufio.NewReaderSize(plain, 256<<10)
		start, err := firstBytes(buffer)
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			yield(at, fmt.Errorf("the file is truncated or damaged at this line; the rest of the file was not sent: %w", err))
		case len(start) == 0:
			yield(at, errEmpty)
		case bytes.HasPrefix(start, parquetMagic):
			yield(at, errParquet)
		case start[0] == '[':
			in.elements(buffer, yield)
		case start[0] == '{':
			in.objects(buffer, yield)
		case table:
			in.rows(buffer, yield)
		default:
			in.linesOf(buffer, at, yield)
		}
	}
}

// firstBytes returns the first bytes that are not white space, without consuming them. It skips a byte order
// mark.
func firstBytes(buffer *bufio.Reader) ([]byte, error) {
	skipMark(buffer)
	for n := 64; ; n *= 2 {
		start, err := buffer.Peek(n)
		if trimmed := bytes.TrimLeft(start, " \t\r\n"); len(trimmed) >= len(parquetMagic) || err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return trimmed, err
		}
	}
}

// boundedReader reads at most left bytes, and then returns errTooLong.
type boundedReader struct {
	io.Reader
	left int
}

func (r *boundedReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errTooLong
	}
	n, err := r.Reader.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// elements yields the elements of an array.
func (in *input) elements(buffer *bufio.Reader, yield func(line, error) bool) {
	const ahead = 1 << 16 // number of bytes that the decoder may read beyond a value
	bounded := &boundedReader{buffer, in.maxLine + ahead}
	decoder := json.NewDecoder(bounded)
	at := line{file: in.name, element: true, number: 1}
	_, err := decoder.Token()
	for ; err == nil && decoder.More(); at.number++ {
		bounded.left = in.maxLine + ahead
		var element json.RawMessage
		if err = decoder.Decode(&element); err != nil {
			break
		}
		var text bytes.Buffer
		if err = json.Compact(&text, element); err != nil {
			break
		}
		one := at
		if one.text = text.Bytes(); !yield(one, nil) {
			return
		}
	}
	if err == nil {
		_, err = decoder.Token() // reads the end of the array, or fails if the array is malformed
	}
	switch {
	case errors.Is(err, errTooLong):
		yield(at, fmt.Errorf("the element is longer than %d bytes; the rest of the array, including the element, was not sent", in.maxLine))
	case err != nil:
		yield(at, fmt.Errorf("the array is truncated or damaged at this element; the rest of the array was not sent: %w", err))
	}
}

// objects yields objects that occupy one line each, or a single object that spans several lines.
func (in *input) objects(buffer *bufio.Reader, yield func(line, error) bool) {
	at := line{file: in.name, number: 1}
	first, err := firstLine(buffer)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) || json.Valid(first) || !isBeginning(first) {
		in.linesOf(buffer, at, yield)
		return
	}
	// The first line is either the beginning of a longer value or damaged.
	text, err := io.ReadAll(io.LimitReader(buffer, maxFile))
	var whole bytes.Buffer
	if err == nil && json.Compact(&whole, text) == nil {
		at.text = whole.Bytes()
		yield(at, nil)
		return
	}
	rest := io.MultiReader(bytes.NewReader(text), &errOrReader{buffer, err})
	in.linesOf(bufio.NewReaderSize(rest, 256<<10), at, yield)
}

// firstLine returns the first line that is not blank, or the beginning of that line if it is longer than the
// buffer. It consumes nothing. It does not wait for data beyond that line, because the next lines may arrive
// later if the input is a pipe.
func firstLine(buffer *bufio.Reader) ([]byte, error) {
	for n := 1; ; n = buffer.Buffered() + 1 {
		_, err := buffer.Peek(n)
		start, _ := buffer.Peek(buffer.Buffered())
		start = bytes.TrimLeft(start, " \t\r\n")
		if line, _, found := bytes.Cut(start, []byte("\n")); found || err != nil {
			return line, err
		}
	}
}

// isBeginning reports whether a text is the beginning of a JSON value.
func isBeginning(text []byte) bool {
	return errors.Is(json.NewDecoder(bytes.NewReader(text)).Decode(new(json.RawMessage)), io.ErrUnexpectedEOF)
}

// errOrReader is a reader that returns err if err is not nil, and otherwise reads from Reader.
type errOrReader struct {
	io.Reader
	err error
}

func (f *errOrReader) Read(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.Reader.Read(p)
}

// rows yields the rows of a CSV file as objects. A cell that contains a JSON array or object
// becomes that value, an empty cell becomes null, and any other cell becomes a string.
func (in *input) rows(buffer *bufio.Reader, yield func(line, error) bool) {
	const ahead = 1 << 16
	bounded := &boundedReader{buffer, in.maxLine + ahead}
	reader := csv.NewReader(&cellReader{in: bufio.NewReader(bounded)})
	reader.FieldsPerRecord = -1
	at := line{file: in.name, number: 1}
	names, err := reader.Read()
	if err == nil && len(names) < 2 {
		yield(at, errors.New("the file is neither JSON nor CSV with a header line"))
		return
	}
	for ; err == nil; at.number++ {
		bounded.left = in.maxLine + ahead
		var cells []string
		if cells, err = reader.Read(); err != nil {
			break
		}
		one := at
		one.element = true
		one.text = rowOf(names, cells)
		if len(cells) != len(names) {
			if !yield(one, fmt.Errorf("the row has %d cells, but the header has %d columns", len(cells), len(names))) {
				return
			}
			continue
		}
		if !yield(one, nil) {
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		yield(at, fmt.Errorf("the CSV file cannot be parsed at this row; the rest of the file was not sent: %w", err))
	}
}

// cellReader reads a CSV file for csv.Reader, which removes the carriage return before a line feed in
// a quoted cell. cellReader adds another one, so that the cell keeps its bytes.
type cellReader struct {
	in     *bufio.Reader
	quoted bool // the number of quotation marks so far is odd
	last   byte
	held   bool // a line feed has been read, but not returned yet
}

func (r *cellReader) Read(p []byte) (n int, err error) {
	for ; n < len(p); n++ {
		if r.held {
			p[n], r.last, r.held = '\n', '\n', false
			continue
		}
		if n > 0 && r.in.Buffered() == 0 {
			break // do not wait for more
		}
		c, err := r.in.ReadByte()
		if err != nil {
			return n, err
		}
		r.quoted = r.quoted != (c == '"')
		if c == '\n' && r.last == '\r' && r.quoted {
			c, r.held = '\r', true
		}
		p[n], r.last = c, c
	}
	return n, nil
}

func rowOf(names, cells []string) []byte {
	w := new(pyjson.Builder)
	w.BeginObject()
	seen := make(map[string]bool)
	for i, name := range names[:min(len(names), len(cells))] {
		if seen[name] {
			continue
		}
		seen[name] = true
		w.BeginMember(name)
		cell := []byte(cells[i])
		switch trimmed := bytes.TrimSpace(cell); {
		case len(cell) == 0:
			w.Buf = append(w.Buf, "null"...)
		case (firstByte(trimmed) == '[' || firstByte(trimmed) == '{') && json.Valid(trimmed):
			w.Buf = append(w.Buf, trimmed...)
		default:
			w.Buf = appendBytes(w.Buf, cell)
		}
	}
	w.EndObject()
	return w.Buf
}

func firstByte(text []byte) byte {
	if len(text) == 0 {
		return 0
	}
	return text[0]
}
