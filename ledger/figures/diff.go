package figures

import (
	"context"
	"errors"
	"fmt"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/ledger/record/members"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/textdiff"
)

// MaxDiffBytes is the largest total size, in bytes, of the two texts of a diff.
const MaxDiffBytes = 4 << 20

// names maps accepted aliases of content names to the stored names.
var names = map[string]string{"prompt": ContentSystemPrompt, "passage": "content"}

// MissingContentError reports that the record at Seq has no content with the given name.
type MissingContentError struct {
	Seq  uint64
	Name string
}

// Error implements error.
func (e *MissingContentError) Error() string {
	return fmt.Sprintf("event %d has no content named %q", e.Seq, e.Name)
}

// TextsTooLongError reports that two texts are too long for a diff (see MaxDiffBytes).
type TextsTooLongError struct{ TotalBytes uint64 } // total size of both texts

// Error implements error.
func (e *TextsTooLongError) Error() string {
	return fmt.Sprintf("the texts have %d bytes in total, but a diff can compare at most %d; read both texts and compare them yourself", e.TotalBytes, MaxDiffBytes)
}

// SetMemberValues sets the values in list, which contains the payload members that differ between
// the records a and b. It leaves list unchanged if either payload was not posted or has been
// redacted, or if the payloads are too long.
func (t *TextComparer) SetMemberValues(ctx context.Context, a, b uint64, list []wire.MemberDifference) error {
	if len(list) == 0 {
		return nil
	}
	payloadA, payloadB, err := t.payloads(ctx, a, b)
	if err != nil || payloadA == nil {
		return err
	}
	var documentA, documentB pyjson.Document
	if err := errors.Join(documentA.Parse(payloadA), documentB.Parse(payloadB)); err != nil {
		return fmt.Errorf("reading the payloads of events %d and %d: %w", a, b, err)
	}
	for i := range list {
		name, _ := members.NameFromPointer([]byte(list[i].Pointer))
		list[i].AValue, list[i].BValue = documentA.Root().Member(string(name)).Raw(), documentB.Root().Member(string(name)).Raw()
	}
	return nil
}

// payloads returns the payloads of two records. Both are nil if one of the payloads was not
// posted or is redacted, or if they are too long.
func (t *TextComparer) payloads(ctx context.Context, a, b uint64) (payloadA, payloadB []byte, err error) {
	contentA, foundA, err := t.contentNamed(ctx, a, ContentPayload)
	if err != nil {
		return nil, nil, err
	}
	contentB, foundB, err := t.contentNamed(ctx, b, ContentPayload)
	if err != nil || !foundA || !foundB || contentA.Size+contentB.Size > MaxDiffBytes {
		return nil, nil, err
	}
	payloadA, payloadB, err = t.read(ctx, contentA, contentB)
	var redacted *RedactedError
	if gone := t.redacted(ctx, a, b); errors.As(gone, &redacted) {
		return nil, nil, nil
	} else if gone != nil {
		return nil, nil, gone
	}
	return payloadA, payloadB, err
}

// Diff compares the content with a given name in two records. It also accepts the names "prompt" and
// "passage". The error can be a *MissingContentError, a *TextsTooLongError, or a *RedactedError.
func (t *TextComparer) Diff(ctx context.Context, of string, a, b uint64) (*wire.TextDiff, error) {
	if name, known := names[of]; known {
		of = name
	}
	var contents [2]event.Content
	for i, seq := range [...]uint64{a, b} {
		var found bool
		var err error
		if contents[i], found, err = t.contentNamed(ctx, seq, of); err != nil {
			return nil, err
		}
		if !found {
			return nil, &MissingContentError{seq, of}
		}
	}
	contentA, contentB := contents[0], contents[1]
	if size := contentA.Size + contentB.Size; size > MaxDiffBytes {
		return nil, &TextsTooLongError{size}
	}
	textA, textB, err := t.read(ctx, contentA, contentB)
	if redacted := t.redacted(ctx, a, b); redacted != nil {
		return nil, redacted
	}
	if err != nil {
		return nil, err
	}
	f, edits := textdiff.Diff(textA, textB)
	answer := &wire.TextDiff{ContentName: of, Similarity: wire.Decimal(f.Similarity), LengthChange: lengthChange(&f), LowerBound: f.ExceedsLimit,
		A:     wire.DiffedText{Seq: a, SHA256: fmt.Sprintf("%x", contentA.Digest), TextLength: length(f.LengthA)},
		B:     wire.DiffedText{Seq: b, SHA256: fmt.Sprintf("%x", contentB.Digest), TextLength: length(f.LengthB)},
		Edits: make([]wire.TextEdit, len(edits))}
	for i, e := range edits {
		answer.Edits[i] = wire.TextEdit{Op: wire.EditOp(e.Op), Text: string(e.Text)}
	}
	return answer, nil
}
