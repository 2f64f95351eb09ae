// Package importer posts the records in NDJSON files, or in files written by other systems, to a
// ledger, and counts the outcomes.
package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"colophon/client"
	"colophon/client/wire"
)

// Options configures an import.
type Options struct {
	MismatchPolicy string         // accept or reject; if empty, the ledger's setting applies
	MaxLineBytes   int            // maximum length of a line, in bytes
	Stdin          io.Reader      // read in place of the file "-"
	OnRead         func(n int)    // called with the number of bytes read, from another goroutine
	Native         *NativeOptions // options for files in another system's native format; nil for files of records
	DefaultKind    string         // kind of the records that are not wrapped in a batch line; empty if not given
}

// Limits on the lines that have been sent but not yet answered. Every line requires some
// memory in addition to its text, so the number of lines is limited too.
const (
	windowBytes = 16 << 20
	windowLines = windowBytes / 512
)

// Run posts every line of the files and returns when all of them have been answered. If the import
// stops early, Run returns an error, such as one from client.RecordsService.PostBatch or ctx, and a
// tally of the lines that were answered until then. If a line has neither an idempotency_key nor a
// run_id, Run adds a key that consists of the line's digest and the number of its occurrences so
// far. Repeating an import therefore adds nothing.
func Run(ctx context.Context, to *client.Ledger, o Options, files []string) (*Tally, error) {
	counted, reader := newCounter(), new(answerReader)
	lines := o.lines(files, counted)
	if o.Native != nil {
		lines = o.nativeLines(files, counted)
		if o.Native.DryRun {
			for range lines {
				panic("importer: a dry run must not send lines")
			}
			return counted.tally(), nil
		}
	}
	options := &client.BatchOptions{OnMismatch: o.MismatchPolicy, KeepRawReceipts: true, MaxPendingBytes: windowBytes, MaxPendingLines: windowLines}
	for result, err := range to.Records.PostBatch(ctx, lines, options) {
		if err != nil {
			return counted.tally(), err
		}
		line := result.Line.Tag.(*line)
		if result.Err != nil {
			counted.refuse(line, refusal(result.Err))
			continue
		}
		a, err := reader.read(result.RawReceipt)
		if line.format {
			line.kind = a.kind
		}
		if err == nil && (a.ledger != to.Name() || a.kind != line.kind) {
			err = fmt.Errorf("the receipt belongs to a different record, of kind %.100q in ledger %.100q", a.kind, a.ledger)
		}
		if err != nil {
			return counted.tally(), fmt.Errorf("%w to %s: %w", client.ErrUnexpectedResponse, line.place(), err)
		}
		counted.accept(line, a)
		if line.entry != nil && line.entry.Change != nil {
			if err := change(ctx, to, line, a, counted); err != nil {
				return counted.tally(), err
			}
		}
	}
	return counted.tally(), nil
}

// change posts the state change or validation that follows a record, and counts the outcome. It
// returns an error only if the server cannot be reached, temporarily refuses requests, or
// returned an invalid seq for the record.
func change(ctx context.Context, to *client.Ledger, l *line, a answer, counted *counter) error {
	c := l.entry.Change
	follows := &line{file: l.file, number: l.number, entry: l.entry, kind: string(c.Kind())}
	options := &client.ChangeOptions{IdempotencyKey: c.Key, MinimizeReceipt: true}
	origin := wire.ActionOrigin{OriginalActor: c.OriginalActor, Timestamp: c.Timestamp}
	var receipt *wire.Receipt
	var err error
	seq, parseErr := strconv.ParseUint(a.seq, 10, 64)
	if parseErr != nil {
		return fmt.Errorf("%w to %s: the receipt's seq is %q, but must be an unsigned integer", client.ErrUnexpectedResponse, l.place(), a.seq)
	}
	if c.State == "" {
		receipt, err = validate(ctx, to, l, a, seq, wire.PathValidation{Validated: true, Reason: &c.Reason, ActionOrigin: origin}, options)
	} else {
		receipt, err = to.Records.SetState(ctx, seq, wire.StateChange{State: wire.State(c.State), Reason: c.Reason, ActionOrigin: origin}, options)
	}
	problem := (*client.Error)(nil)
	switch {
	case err == nil:
		counted.accept(follows, answer{replayed: receipt.Replayed})
	case errors.Is(err, errOtherText) || errors.As(err, &problem) && !problem.Temporary():
		counted.refuse(follows, refusal(err))
	default:
		return err
	}
	return nil
}

// lines yields the lines of all files. It counts those that cannot be read.
func (o Options) lines(files []string, counted *counter) iter.Seq[client.BatchLine] {
	return func(yield func(client.BatchLine) bool) {
		keys := newKeyer()
		for _, name := range files {
			in := &input{name: name, maxLine: o.MaxLineBytes, stdin: o.Stdin, read: o.OnRead}
			for l, err := range in.values(false) {
				if errors.Is(err, errEmpty) {
					counted.warn(name + ": " + err.Error())
					continue
				}
				if err == nil {
					err = keys.complete(&l, o.DefaultKind)
				}
				if err != nil {
					counted.refuse(&l, err)
					continue
				}
				if !yield(client.BatchLine{RawJSON: l.text, Tag: &l}) {
					return
				}
			}
		}
	}
}

// refusal returns the server's reason for refusing a line, without the description of the request.
func refusal(err error) error {
	if problem := (*client.Error)(nil); errors.As(err, &problem) {
		return fmt.Errorf("%d %s", problem.Status, problem.Reason())
	}
	return err
}
