package query

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"colophon/client/wire"
	"colophon/ledger/figures"
	"colophon/ledger/index"
	"colophon/ledger/index/effects"
	"colophon/ledger/index/records"
	"colophon/ledger/record/moment"
	"colophon/proofs"
	"colophon/storage"
)

// Log provides what answers need from a ledger in addition to its index. It has at least the
// events of the view.
type Log interface {
	// Name returns the name of the ledger.
	Name() string
	// Entry returns the entry of an event.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// Redaction returns the seq of the event that redacts a record, or storage.ErrNotFound.
	Redaction(ctx context.Context, seq uint64) (uint64, error)
	// Prover returns a prover for the tree at the view's size, and possibly at larger sizes.
	Prover(ctx context.Context) *proofs.Prover
	// Checkpoint returns the signed checkpoint of a tree size that the prover covers.
	Checkpoint(ctx context.Context, size uint64) ([]byte, error)
}

// View is one ledger at one tree size, with the parameters that questions share. It is not safe
// for concurrent use.
type View struct {
	*index.View
	Context    context.Context
	Log        Log
	Totals     *effects.Cache        // counts of earlier questions; nil caches none
	Texts      *figures.TextComparer // computes figures about texts; nil if the answer has none
	Names      *figures.NameFinder   // finds names; nil if the answer has none
	Page       index.Page            // page of the rows
	SecondPage index.Page            // page of the second list, if the answer has one
	AnyState   bool                  // records of all states, not only live ones
	Seeded     bool                  // only runs with a seed
	Proofs     bool                  // rows have inclusion proofs, and the answer has the checkpoint
	atHead     bool                  // each page is read at the head when it is requested
	// err is the first error of the method row, which returns none itself. Every answer ends
	// with a call to the method tree, which returns err.
	err error
}

// Close releases the index. Further calls do nothing.
func (v *View) Close() {
	if v.View != nil {
		_ = v.View.Close() // the view is read only
		v.View = nil
	}
}

// next returns the cursor for a position, or "" for nil, which marks the last page.
func (v *View) next(position []byte) string {
	if position == nil {
		return ""
	}
	size := v.Size()
	if v.atHead {
		size = headSize
	}
	return base64.RawURLEncoding.EncodeToString(append(binary.AppendUvarint(nil, size), position...))
}

// row returns the common part of the row for an event: its seq and, if the request wants
// proofs, its inclusion proof. tree returns the error.
func (v *View) row(seq uint64) wire.RowMembers {
	row := wire.RowMembers{Seq: seq}
	if !v.Proofs || v.err != nil {
		return row
	}
	path, err := v.Log.Prover(v.Context).Inclusion(seq, v.Size())
	if err != nil {
		v.err = fmt.Errorf("proving event %d: %w", seq, err)
		return row
	}
	row.Inclusion = &wire.InclusionProof{LeafIndex: seq, TreeSize: v.Size(), Hashes: make([]string, len(path))}
	for i, hash := range path {
		row.Inclusion.Hashes[i] = hex.EncodeToString(hash[:])
	}
	return row
}

// tree returns the common part of an answer: the tree size and, if proofs are requested, the
// checkpoint of that size. It also returns the first error of row, so it must be called last.
func (v *View) tree() (wire.TreeView, error) {
	tree := wire.TreeView{AsOf: v.Size()}
	if v.err != nil || !v.Proofs {
		return tree, v.err
	}
	checkpoint, err := v.Log.Checkpoint(v.Context, tree.AsOf)
	tree.Checkpoint = string(checkpoint)
	return tree, err
}

// page returns one page of a list. row builds the row for each result.
func page[F, R any](v *View, found []F, next []byte, row func(*View, *F) R) (*wire.Page[R], error) {
	rows := rowsOf(v, found, row)
	tree, err := v.tree()
	return &wire.Page[R]{TreeView: tree, Rows: rows, Next: v.next(next)}, err
}

// runPage returns one page of a list of runs. If the list is empty, the page also names the
// parts that IPC records lack, because missing parts can be the reason.
func runPage[F, R any](v *View, found []F, next []byte, row func(*View, *F) R) (*wire.RunPage[R], error) {
	p, err := page(v, found, next, row)
	answer := &wire.RunPage[R]{Page: *p}
	if err == nil && len(found) == 0 && next == nil && v.Page.After == nil {
		answer.Incomplete, err = records.MissingParts(v.View)
	}
	return answer, err
}

// rowsOf builds a row for each result. The list is never nil, so that JSON shows [].
func rowsOf[F, R any](v *View, found []F, row func(*View, *F) R) []R {
	rows := make([]R, len(found))
	for i := range found {
		rows[i] = row(v, &found[i])
	}
	return rows
}

// timeOf returns a time in the format of events.
func timeOf(t time.Time) wire.Time { return wire.Time(t.Format(moment.Layout)) }

// RedactedBy returns the seq of the event that redacts a record, even if it is beyond the view,
// or nil if none does.
func RedactedBy(ctx context.Context, log interface {
	Redaction(ctx context.Context, seq uint64) (uint64, error)
}, seq uint64) (*uint64, error) {
	by, err := log.Redaction(ctx, seq)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the redaction of event %d: %w", seq, err)
	}
	return &by, nil
}

// optionalSeq returns nil for 0. No record has the seq 0.
func optionalSeq(seq uint64) *uint64 {
	if seq == 0 {
		return nil
	}
	return &seq
}

// nullable returns nil for an empty text.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// orEmpty returns an empty list for nil, so that JSON shows [] instead of null.
func orEmpty[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// named returns the name that find returns, or nil if the answer has no names. If find fails, named
// sets v.err, which tree returns, and returns nil.
func named[N any](v *View, find func(*figures.NameFinder) (*N, error)) *N {
	if v.Names == nil || v.err != nil {
		return nil
	}
	name, err := find(v.Names)
	if err != nil {
		v.err = err
		return nil
	}
	return name
}

// groupName returns the display name of the value that the records of a group share, or nil (see
// named). first and last are the seqs of two of these records.
func (v *View) groupName(by string, first, last uint64) *wire.HashName {
	return named(v, func(n *figures.NameFinder) (*wire.HashName, error) { return n.NameGroup(v.Context, by, first, last) })
}

// textName returns the display name of a text of the record at seq, or nil (see named). hash is the
// name of the text's hash.
func (v *View) textName(seq uint64, hash string) *wire.HashName {
	return named(v, func(n *figures.NameFinder) (*wire.HashName, error) { return n.NameText(v.Context, seq, hash) })
}

// recordName returns the display name of the record at seq, or nil (see named).
func (v *View) recordName(seq uint64) *wire.HashName {
	return named(v, func(n *figures.NameFinder) (*wire.HashName, error) { return n.NameRecord(v.Context, seq) })
}
