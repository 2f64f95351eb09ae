// Package figures computes figures about the texts of records, such as their similarity (spec:
// Figures of texts). The figures depend on the content that is currently stored, so two answers can
// differ even if they are computed at the same tree size.
package figures

import (
	"context"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/ledger/textdiff"
	"colophon/proofs"
)

// Log gives access to the events and the content of one ledger.
type Log interface {
	// Name returns the name of the ledger.
	Name() string
	// Entry returns the entry of an event.
	Entry(ctx context.Context, seq uint64) ([]byte, error)
	// RedactedBy returns the seq of the event that redacted a record, or nil if the record is
	// not redacted.
	RedactedBy(ctx context.Context, seq uint64) (*uint64, error)
	// Content returns the content that has the given digest.
	Content(ctx context.Context, digest proofs.Hash) ([]byte, error)
}

// TextComparer measures how much texts differ, for one answer to a client (spec: Figures of texts).
// It is not safe for concurrent use.
type TextComparer struct {
	Log Log // ledger that contains the texts
	// Reserve reserves memory for the answer. bytes is the total that the answer needs, including
	// what earlier calls reserved.
	Reserve func(bytes int64) error
	// MemoryPerByte is the memory that the answer needs for each byte of the compared texts, in
	// bytes.
	MemoryPerByte int64
	Cache         *Cache // keeps figures for later answers; must not be nil

	held    int64
	decoder event.Decoder
}

// Cache keeps figures and names for later answers, keyed by the digests of the texts. Ledgers do not
// share cached values, because otherwise the response time could reveal to users of one ledger what
// content another ledger has. A Cache is safe for concurrent use.
type Cache struct {
	figures *lru.Cache[key, textdiff.Figures]
	names   *lru.Cache[nameKey, *wire.ReadableName]
}

type key struct {
	ledger string
	a, b   proofs.Hash
}

// maxCached is the maximum number of figures in a Cache, and also the maximum number of names. Each
// figure or name needs about 300 bytes.
const maxCached = 1 << 15

// NewCache returns an empty cache.
func NewCache() *Cache {
	figures, err := lru.New[key, textdiff.Figures](maxCached)
	names, namesErr := lru.New[nameKey, *wire.ReadableName](maxCached)
	if err := errors.Join(err, namesErr); err != nil {
		panic(err) // cannot happen, since the size is positive
	}
	return &Cache{figures, names}
}

// Names of the content of an IPC record.
const (
	ContentOutput       = "output"        // the generated text
	ContentSystemPrompt = "system_prompt" // the system prompt
	ContentPayload      = "payload"       // the input of the prompt, a JSON object
)

// Work measures the work done to compare texts, in units of textdiff.Figures.Work.
type Work uint64

// maxWork is the limit on the Work for one list. That much work takes about one second on one core.
const maxWork = 1 << 26

// CompareContent compares the content with the given name in two records, and adds the work done to
// *work. Once *work has reached maxWork, CompareContent does not read any content, and the result is
// marked unavailable with wire.UnavailableWorkLimit.
func (t *TextComparer) CompareContent(ctx context.Context, name string, a, b uint64, work *Work) (wire.TextChange, error) {
	if *work >= maxWork {
		return wire.TextChange{Unavailable: wire.UnavailableWorkLimit}, nil
	}
	f, unavailable, err := t.figures(ctx, name, a, b)
	if err != nil || unavailable != "" {
		return wire.TextChange{Unavailable: unavailable}, err
	}
	*work += Work(f.Work)
	similarity, lengthA, lengthB := wire.Decimal(f.Similarity), length(f.LengthA), length(f.LengthB)
	return wire.TextChange{A: &lengthA, B: &lengthB, Similarity: &similarity, LengthChange: lengthChange(&f), LowerBound: f.ExceedsLimit}, nil
}

// MeasureContent returns the length of the content of one record, as a TextChange without a first
// text.
func (t *TextComparer) MeasureContent(ctx context.Context, name string, seq uint64, work *Work) (wire.TextChange, error) {
	change, err := t.CompareContent(ctx, name, seq, seq, work)
	return wire.TextChange{Unavailable: change.Unavailable, B: change.B}, err
}

func length(l textdiff.Length) wire.TextLength {
	return wire.TextLength{Bytes: l.Bytes, Characters: l.Characters, Words: l.Words}
}

// lengthChange returns the relative change of the length in words, or nil if the first text
// has no words.
func lengthChange(f *textdiff.Figures) *wire.Decimal {
	if f.LengthA.Words == 0 {
		return nil
	}
	change := wire.Decimal(float64(f.LengthB.Words)/float64(f.LengthA.Words) - 1)
	return &change
}

// figures compares the content with the given name in two records. If one of the texts was not
// posted or has been redacted, unavailable is the reason.
func (t *TextComparer) figures(ctx context.Context, name string, a, b uint64) (f textdiff.Figures, unavailable wire.UnavailableReason, err error) {
	textA, found, err := t.contentNamed(ctx, a, name)
	if err != nil || !found {
		return f, wire.UnavailableNotPosted, err
	}
	textB, found, err := t.contentNamed(ctx, b, name)
	if err != nil || !found {
		return f, wire.UnavailableNotPosted, err
	}
	key := key{t.Log.Name(), textA.Digest, textB.Digest}
	f, cached := t.Cache.figures.Get(key)
	if !cached {
		f, err = t.compare(ctx, textA, textB)
	}
	var redacted *RedactedError
	switch redactedErr := t.redacted(ctx, a, b); {
	case errors.As(redactedErr, &redacted):
		return f, wire.UnavailableRedacted, nil
	case redactedErr != nil:
		return f, "", redactedErr
	case err == nil && !cached:
		t.Cache.figures.Add(key, f)
	}
	return f, "", err
}

// RedactedError reports that the content of the record at Seq was erased. RedactionSeq is the seq
// of the event that erased it.
type RedactedError struct{ Seq, RedactionSeq uint64 }

// Error implements error.
func (e *RedactedError) Error() string {
	return fmt.Sprintf("the content of event %d was erased; event %d gives the reason", e.Seq, e.RedactionSeq)
}

// redacted returns a *RedactedError if either of two records is redacted. It must be called after
// their content is read, so that it also detects a redaction that erased the content in the
// meantime.
func (t *TextComparer) redacted(ctx context.Context, a, b uint64) error {
	for _, seq := range [...]uint64{a, b} {
		by, err := t.Log.RedactedBy(ctx, seq)
		if err != nil {
			return err
		}
		if by != nil {
			return &RedactedError{seq, *by}
		}
	}
	return nil
}

func (t *TextComparer) compare(ctx context.Context, a, b event.Content) (textdiff.Figures, error) {
	textA, textB, err := t.read(ctx, a, b)
	if err != nil {
		return textdiff.Figures{}, err
	}
	return textdiff.Compare(textA, textB), nil
}

// read reserves memory for two pieces of content and reads them.
func (t *TextComparer) read(ctx context.Context, a, b event.Content) (textA, textB []byte, err error) {
	if need := textdiff.MaxMemoryBytes(a.Size, b.Size) + t.MemoryPerByte*int64(a.Size+b.Size); need > t.held {
		if err := t.Reserve(need); err != nil {
			return nil, nil, err
		}
		t.held = need
	}
	if textA, err = t.Log.Content(ctx, a.Digest); err != nil {
		return nil, nil, fmt.Errorf("reading content %x: %w", a.Digest, err)
	}
	if a.Digest == b.Digest {
		return textA, textA, nil
	}
	if textB, err = t.Log.Content(ctx, b.Digest); err != nil {
		return nil, nil, fmt.Errorf("reading content %x: %w", b.Digest, err)
	}
	return textA, textB, nil
}

// contentNamed returns the named piece of content of a record. found is false if the record has no such
// content.
func (t *TextComparer) contentNamed(ctx context.Context, seq uint64, name string) (c event.Content, found bool, err error) {
	entry, err := t.Log.Entry(ctx, seq)
	if err != nil {
		return c, false, fmt.Errorf("reading entry %d: %w", seq, err)
	}
	e, err := t.decoder.Decode(entry)
	if err != nil {
		return c, false, fmt.Errorf("reading event %d: %w", seq, err)
	}
	for c := range e.Contents() {
		if string(c.Name) == name {
			return event.Content{Digest: c.Digest, Size: c.Size}, true, nil
		}
	}
	return c, false, nil
}
