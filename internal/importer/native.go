package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"colophon/client"
	"colophon/ledger/record"
	"colophon/ledger/record/formats"
	"colophon/ledger/record/pyjson"
)

// NativeOptions configures an import of files in another system's native format.
type NativeOptions struct {
	Format formats.Format
	// Zone is the time zone of times that do not state one; nil if it is not given.
	Zone *time.Location
	// Project is the project of the paths in a story's validation cache, and Subject is the subject
	// of citations. If Subject is empty, the name of the file's folder is used.
	Project, Subject string
	DryRun           bool      // convert and check everything, but send nothing
	ReportWriter     io.Writer // receives one line of JSON for each entry; may be nil
}

// AcceptsFolders reports whether an import of this format accepts folders.
func AcceptsFolders(f formats.Format) bool {
	return f == formats.AxisLabSave || f == formats.CitationsFile
}

// maxFile is the maximum length, in bytes, of a file that consists of a single native value.
const maxFile = 64 << 20

// native is a value in another system's format, with its position. A native without text
// exists only to report the files or tables in others.
type native struct {
	line
	run string // for citations: name of the folder that contains the file
	// others lists the files in the folder, or the tables in the database, that are not part of the
	// format.
	others []formats.MemberOutcome
}

func (n *native) leaveOut(name, why string) {
	at := string(pyjson.AppendPointerToken(nil, []byte(name)))
	n.others = append(n.others, formats.MemberOutcome{Pointer: at, Pattern: at, Outcome: formats.OutcomeLeftOut, Detail: why})
}

// nativeLines yields the entries of all files as batch lines. It counts what happens to every
// member. If an entry has no record that the ledger accepts, it counts the entry instead of
// yielding it.
func (o Options) nativeLines(files []string, counted *counter) iter.Seq[client.BatchLine] {
	options := formats.Options{DefaultZone: o.Native.Zone, Project: o.Native.Project, Limits: record.DefaultLimits()}
	return func(yield func(client.BatchLine) bool) {
		for _, name := range files {
			for n, err := range o.natives(name) {
				entries := []formats.Conversion{{FailureReason: "no member of this entry is part of the import format"}}
				if err == nil && n.text != nil {
					options.RunID, options.Subject = n.run, o.Native.Subject
					if options.Subject == "" {
						options.Subject = n.run
					}
					entries, err = o.Native.Format.Convert(n.text, options)
				}
				if errors.Is(err, errEmpty) {
					counted.warn(name + ": the file is empty; nothing was imported")
					continue
				}
				if err != nil {
					n.entry = &formats.Conversion{FailureReason: err.Error(), MemberOutcomes: n.others}
					counted.members(&n.line, n.others)
					counted.refuse(&n.line, err)
					o.report(&n.line, err, counted)
					continue
				}
				for i := range entries {
					e := &entries[i]
					if i == 0 {
						e.MemberOutcomes = append(e.MemberOutcomes, n.others...)
					}
					l := &line{file: n.file, number: n.number, element: n.element, entry: e, kind: string(e.Kind)}
					if !o.account(l, counted) {
						continue
					}
					if l.text = e.AppendBatchLine(nil); !yield(client.BatchLine{RawJSON: l.text, Tag: l}) {
						return
					}
				}
			}
		}
	}
}

// account counts the members of an entry and reports whether its record should be sent.
func (o Options) account(l *line, counted *counter) (send bool) {
	e := l.entry
	counted.members(l, e.MemberOutcomes)
	err := e.Check(record.DefaultLimits())
	o.report(l, err, counted)
	switch {
	case e.Kind == "": // the entry describes the file itself
		return false
	case err != nil:
		counted.refuse(l, fmt.Errorf("the record was left out: %w", err))
		return false
	case !o.Native.DryRun:
		return true
	}
	counted.countDryRun(l)
	return false
}

// report writes a line about an entry to the report. If the entry has no record that the ledger
// accepts, reason says why; otherwise, reason is nil.
func (o Options) report(l *line, reason error, counted *counter) {
	if o.Native.ReportWriter == nil {
		return
	}
	if err := json.NewEncoder(o.Native.ReportWriter).Encode(reportOf(l, reason)); err != nil {
		counted.fail(err)
	}
}

// reportLine is a line of the report. It describes one entry.
type reportLine struct {
	File    string         `json:"file"`
	Line    int            `json:"line"`
	Entry   string         `json:"entry,omitempty"`           // name of the entry
	Kind    record.Kind    `json:"kind,omitempty"`            // kind of the record; empty if there is none
	Key     string         `json:"idempotency_key,omitempty"` // idempotency key of the record
	Change  string         `json:"change,omitempty"`          // kind of the event to record after it, if any
	Left    string         `json:"left,omitempty"`            // why the entry was left out; empty if it was not
	Members []reportMember `json:"members"`                   // what happened to each member of the entry
}

type reportMember struct {
	Pointer string          `json:"pointer"` // JSON pointer to the member
	Outcome formats.Outcome `json:"fate"`
	As      string          `json:"as"` // where the member is in the record, or why it was left out
}

func reportOf(l *line, reason error) reportLine {
	e := l.entry
	r := reportLine{File: l.file, Line: l.number, Entry: e.Name, Kind: e.Kind, Key: e.Key, Members: make([]reportMember, len(e.MemberOutcomes))}
	for i, m := range e.MemberOutcomes {
		r.Members[i] = reportMember{m.Pointer, m.Outcome, m.Detail}
	}
	if e.Change != nil {
		r.Change = string(e.Change.Kind())
	}
	if reason != nil {
		r.Left = reason.Error()
	}
	return r
}

// natives yields the native values in a file or folder. The format determines how it reads them.
func (o Options) natives(name string) iter.Seq2[native, error] {
	return func(yield func(native, error) bool) {
		switch o.Native.Format {
		case formats.AxisLabSave:
			o.saves(name, yield)
		case formats.CitationsFile:
			o.citationFiles(name, yield)
		case formats.Langfuse, formats.MLflow, formats.Phoenix:
			in := &input{name: name, maxLine: o.MaxLineBytes, stdin: o.Stdin, read: o.OnRead}
			values := in.values(true)
			if isParquet(name) {
				values = in.parquetRows
			}
			for l, err := range values {
				if !yield(native{line: l}, err) {
					return
				}
			}
		case formats.ValidationCache:
			text, err := o.readWhole(name)
			yield(native{line: line{file: name, number: 1, text: bytes.TrimPrefix(text, byteOrderMark)}}, err)
		default:
			if isSQLite(name) {
				o.rows(name, yield)
				return
			}
			in := &input{name: name, maxLine: o.MaxLineBytes, stdin: o.Stdin, read: o.OnRead}
			for l, err := range in.lines() {
				if !yield(native{line: l}, err) {
					return
				}
			}
		}
	}
}

// readWhole reads a file that consists of a single native value.
func (o Options) readWhole(name string) ([]byte, error) {
	in := &input{name: name, stdin: o.Stdin, read: o.OnRead}
	plain, err := in.open()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(plain, maxFile+1))
	if err = errors.Join(err, plain.Close()); err != nil {
		return nil, fmt.Errorf("the file is truncated or damaged: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("the file is longer than %d bytes; split it", maxFile)
	}
	return text, nil
}

// walk calls visit for path if path is a file. If path is a folder, walk calls visit for every
// file with the name file in that folder or below it. If there is no such file, it calls visit
// with an error.
func walk(path, file string, visit func(path string, err error) bool) {
	info, err := os.Stat(path)
	if path == "-" || err == nil && !info.IsDir() {
		visit(path, nil)
		return
	}
	found := false
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error { // errors are passed to visit
		if err == nil && d.Name() != file {
			return nil
		}
		found = true
		if !visit(at, err) {
			return fs.SkipAll
		}
		return nil
	})
	if !found {
		visit(path, fmt.Errorf("neither the folder nor any of its subfolders contains a file named %s", file))
	}
}

// citationFiles reads a single file, or every citations.json below a folder. The name of the folder
// that contains the file becomes the run ID.
func (o Options) citationFiles(name string, yield func(native, error) bool) {
	walk(name, "citations.json", func(path string, err error) bool {
		n := native{line: line{file: path, number: 1}}
		if err == nil {
			n.text, err = o.readWhole(path)
			n.text = bytes.TrimPrefix(n.text, byteOrderMark)
		}
		if absolute, failed := filepath.Abs(path); failed == nil && path != "-" {
			n.run = filepath.Base(filepath.Dir(absolute))
		}
		return yield(n, err)
	})
}

// saves yields the save in each folder at or below name that contains a metadata.json. It reports
// the files in all other folders as left out.
func (o Options) saves(name string, yield func(native, error) bool) {
	more := true
	_ = filepath.WalkDir(name, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // walk reports the error later
		}
		files, _ := os.ReadDir(at)
		n := native{line: line{file: at, number: 1}}
		for _, f := range files {
			if f.Name() == formats.AxisLabMetadataFile {
				return nil
			}
			if !f.IsDir() {
				n.leaveOut(f.Name(), "the folder has no "+formats.AxisLabMetadataFile)
			}
		}
		if more = n.others == nil || yield(n, nil); !more {
			return fs.SkipAll
		}
		return nil
	})
	if !more {
		return
	}
	walk(name, formats.AxisLabMetadataFile, func(path string, err error) bool {
		n := native{line: line{file: filepath.Dir(path), number: 1}}
		if err == nil {
			err = o.readSave(&n)
		}
		return yield(n, err)
	})
}

// readSave sets n.text from the files in a save's folder.
func (o Options) readSave(n *native) error {
	files, err := os.ReadDir(n.file)
	if err != nil {
		return err
	}
	w := new(pyjson.Builder)
	w.BeginObject()
	for _, f := range files {
		known, is := formats.AxisLabSaveFiles[f.Name()]
		if !is || !f.Type().IsRegular() {
			n.leaveOut(f.Name(), "the file is not part of a save")
			continue
		}
		text, err := o.readWhole(filepath.Join(n.file, f.Name()))
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", f.Name(), err)
		case !utf8.Valid(text):
			return fmt.Errorf("%s is not UTF-8", f.Name())
		}
		if known.JSON { // in a text, a byte order mark is content
			text = bytes.TrimPrefix(text, byteOrderMark)
			if err := new(pyjson.Document).Parse(text); err != nil {
				return fmt.Errorf("parsing %s: %w", f.Name(), err)
			}
			w.AddRaw(f.Name(), text)
			continue
		}
		w.BeginMember(f.Name())
		w.Buf = pyjson.AppendString(w.Buf, text)
	}
	w.EndObject()
	n.text = w.Buf
	return nil
}

// isSQLite reports whether a file begins with the magic number of an SQLite database. It returns
// false for standard input.
func isSQLite(name string) bool {
	if name == "-" {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(sqliteMagic))
	_, err = io.ReadFull(f, start)
	return err == nil && strings.HasPrefix(string(start), sqliteMagic)
}
