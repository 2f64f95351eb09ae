// Package importer posts the records of NDJSON files to a ledger, and counts what becomes of them.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"colophon/client"
)

// Options say what is read and how it is posted. Lines have to be shorter than MaxLine bytes.
type Options struct {
	OnMismatch string // accept or reject; empty: as the ledger is set
	MaxLine    int
	Stdin      io.Reader   // is read for the file "-"
	Read       func(n int) // is told how many bytes of the files were read, by another goroutine
}

// Bounds of what is read and not answered. Short lines cost more than their bytes.
const (
	windowBytes = 16 << 20
	windowLines = windowBytes / 512
)

// Run posts every line of the files, and returns when each is answered. An error says why it could not go on: it is
// that of client.RecordsService.Batch, or that of ctx. The tally has the lines that were answered until then. A line
// without idempotency_key and run_id gets a key from its digest and from how often it has occurred, so that
// the same import again adds nothing twice.
func Run(ctx context.Context, to *client.Ledger, o Options, files []string) (*Tally, error) {
	counted, reader := newCounter(), new(answerReader)
	options := &client.BatchOptions{OnMismatch: o.OnMismatch, Undecoded: true, MaxBytes: windowBytes, MaxLines: windowLines}
	for result, err := range to.Records.Batch(ctx, o.lines(files, counted), options) {
		if err != nil {
			return counted.tally(), err
		}
		line := result.Line.Tag.(*line)
		if result.Err != nil {
			counted.refuse(line, refusal(result.Err))
			continue
		}
		a, err := reader.read(result.Text)
		if err == nil && (a.ledger != to.Name() || a.kind != line.kind) {
			err = fmt.Errorf("the receipt is of a record of kind %.100q of ledger %.100q", a.kind, a.ledger)
		}
		if err != nil {
			return counted.tally(), fmt.Errorf("%w to %s: %w", client.ErrAnswer, line.place(), err)
		}
		counted.accept(line, a)
	}
	return counted.tally(), nil
}

// lines are those of all files. What cannot be read is counted.
func (o Options) lines(files []string, counted *counter) iter.Seq[client.Line] {
	return func(yield func(client.Line) bool) {
		keys := newKeyer()
		for _, name := range files {
			in := &input{name: name, maxLine: o.MaxLine, stdin: o.Stdin, read: o.Read}
			for l, err := range in.lines() {
				if err != nil {
					counted.refuse(&l, err)
					continue
				}
				keys.complete(&l)
				if !yield(client.Line{Text: l.text, Tag: &l}) {
					return
				}
			}
		}
	}
}

// refusal says why the server refuses a line, without naming the request.
func refusal(err error) error {
	if problem := (*client.Error)(nil); errors.As(err, &problem) {
		return fmt.Errorf("%d %s", problem.Status, problem.Reason())
	}
	return err
}
