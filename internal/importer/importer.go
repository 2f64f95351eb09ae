// Package importer posts the records of NDJSON files to a ledger, and counts the outcomes.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"colophon/client"
)

// Options configures an import. Lines must be shorter than MaxLine bytes.
type Options struct {
	OnMismatch string // accept or reject; empty: the setting of the ledger
	MaxLine    int
	Stdin      io.Reader   // read for the file "-"
	Read       func(n int) // called with the number of bytes read, from another goroutine
}

// Limits of lines that are sent and not answered yet. Short lines cost more than their bytes.
const (
	windowBytes = 16 << 20
	windowLines = windowBytes / 512
)

// Run posts every line of the files, and returns when each is answered. The error says why the
// import stopped; it comes from client.RecordsService.Batch or from ctx. The tally has the lines
// that were answered until then. A line without idempotency_key and run_id gets a key from its
// digest and from the number of times it has occurred, so that a repeated import adds nothing
// twice.
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
			err = fmt.Errorf("the receipt is for a record of kind %.100q of ledger %.100q", a.kind, a.ledger)
		}
		if err != nil {
			return counted.tally(), fmt.Errorf("%w to %s: %w", client.ErrAnswer, line.place(), err)
		}
		counted.accept(line, a)
	}
	return counted.tally(), nil
}

// lines yields the lines of all files, and counts those that cannot be read.
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

// refusal returns the server's reason for refusing a line, without the request.
func refusal(err error) error {
	if problem := (*client.Error)(nil); errors.As(err, &problem) {
		return fmt.Errorf("%d %s", problem.Status, problem.Reason())
	}
	return err
}
