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

// Log reads the data that answers need but the index does not contain. It covers at least the events in the view.
type Log interface {
	// Name returns the name of the ledger.
	Name() string
	// Entry returns the entry of an event.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// RedactingSeq returns the seq of the event that redacts a record, or storage.ErrNotFound if none does.
	RedactingSeq(ctx context.Context, seq uint64) (uint64, error)
	// Prover returns a prover for the tree at the view's size, and possibly at larger sizes.
	Prover(ctx context.Context) *proofs.Prover
	// Checkpoint returns the signed checkpoint for a tree size. The prover must cover that size.
	Checkpoint(ctx context.Context, size uint64) ([]byte, error)
}

// View gives access to one ledger as it was at one tree size. It also contains the parameters that all questions
// share. It is not safe for concurrent use.
type View struct {
	*index.View
	Context       context.Context       // context of the request
	Log           Log                   // reads data that the index does not contain
	CountCache    *effects.Cache        // caches counts from earlier requests; nil disables caching
	TextComparer  *figures.TextComparer // computes figures about texts; nil omits them
	NameFinder    *figures.NameFinder   // finds display names; nil omits them
	Page          index.PageRequest     // the requested page of rows
	SecondPage    index.PageRequest     // the requested page of the second list, if the answer has one
	AnyState      bool                  // include records in all states, not only live ones
	SeededOnly    bool                  // include only runs with a seed
	IncludeProofs bool                  // add inclusion proofs to the rows and the checkpoint to the answer
	atHead        bool                  // read each page at the current head instead of at a fixed tree size
	// err is the first error in a method, such as row, that does not return errors itself. Every answer ends with a
	// call to tree, which returns err.
	err error
}

// Close releases the index. Calling it again does nothing.
func (v *View) Close() {
	if v.View != nil {
		_ = v.View.Close() // nothing can be lost, because the view is read-only
		v.View = nil
	}
}

// next encodes a position as a cursor. It returns "" for a nil position, which marks the last page.
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

// row returns the fields that all rows have in common: the seq of the event and, if the request wants proofs, its
// inclusion proof. If the event cannot be proved, tree returns the error.
func (v *View) row(seq uint64) wire.RowMembers {
	row := wire.RowMembers{Seq: seq}
	if !v.IncludeProofs || v.err != nil {
		return row
	}
	path, err := v.Log.Prover(v.Context).InclusionProof(seq, v.Size())
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

// tree returns the fields that all answers have in common: the tree size and, if the request wants proofs, the
// checkpoint of that size. It also returns the first error from row, so it must be called last.
func (v *View) tree() (wire.IndexedTreeSize, error) {
	tree := wire.IndexedTreeSize{AsOf: v.Size()}
	if v.err != nil || !v.IncludeProofs {
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
	return &wire.Page[R]{IndexedTreeSize: tree, Rows: rows, Next: v.next(next)}, err
}

// runPage returns one page of a list of runs. If the list is empty, the page also names the parts that IPC records
// lack, which may explain why no runs were found.
func runPage[F, R any](v *View, found []F, next []byte, row func(*View, *F) R) (*wire.RunPage[R], error) {
	p, err := page(v, found, next, row)
	answer := &wire.RunPage[R]{Page: *p}
	if err == nil && len(found) == 0 && next == nil && v.Page.After == nil {
		answer.Incomplete, err = records.MissingParts(v.View)
	}
	return answer, err
}

// rowsOf builds a row for each result. The result is never nil, so that an empty list is encoded as [].
func rowsOf[F, R any](v *View, found []F, row func(*View, *F) R) []R {
	rows := make([]R, len(found))
	for i := range found {
		rows[i] = row(v, &found[i])
	}
	return rows
}

// timeOf returns a time in the format that events use.
func timeOf(t time.Time) wire.Time { return wire.Time(t.Format(moment.Layout)) }

// FindRedaction returns the seq of the event that redacts a record, or nil if no event does. The
// event can be newer than the view. redactingSeq is the method of Log.
func FindRedaction(ctx context.Context, redactingSeq func(context.Context, uint64) (uint64, error), seq uint64) (*uint64, error) {
	by, err := redactingSeq(ctx, seq)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the redaction of event %d: %w", seq, err)
	}
	return &by, nil
}

// optionalSeq returns a pointer to seq, or nil if seq is 0, which no record has.
func optionalSeq(seq uint64) *uint64 {
	if seq == 0 {
		return nil
	}
	return &seq
}

// nullable returns a pointer to text, or nil if text is empty.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// orEmpty returns list, or an empty list if it is nil, so that JSON shows [] instead of null.
func orEmpty[E any](list []E) []E {
	if list == nil {
		return []E{}
	}
	return list
}

// named calls find and returns its result. It returns nil if the answer does not include display names. If find
// fails, named returns nil and sets v.err, which tree returns.
func named[N any](v *View, find func(*figures.NameFinder) (*N, error)) *N {
	if v.NameFinder == nil || v.err != nil {
		return nil
	}
	name, err := find(v.NameFinder)
	if err != nil {
		v.err = err
		return nil
	}
	return name
}

// groupName returns the display name of the value that the records of a group share, or nil (see named). first and
// last are the seqs of two of these records.
func (v *View) groupName(by string, first, last uint64) *wire.ReadableName {
	return named(v, func(n *figures.NameFinder) (*wire.ReadableName, error) {
		return n.GroupName(v.Context, by, first, last)
	})
}

// textName returns the display name of a text of the record at seq, or nil (see named). hash is the name of the
// text's hash.
func (v *View) textName(seq uint64, hash string) *wire.ReadableName {
	return named(v, func(n *figures.NameFinder) (*wire.ReadableName, error) { return n.TextName(v.Context, seq, hash) })
}

// recordName returns the display name of the record at seq, or nil (see named).
func (v *View) recordName(seq uint64) *wire.ReadableName {
	return named(v, func(n *figures.NameFinder) (*wire.ReadableName, error) { return n.RecordName(v.Context, seq) })
}
