package query

import (
	"context"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"colophon/client/wire"
	"colophon/ledger/event"
	"colophon/ledger/textdiff"
	"colophon/proofs"
)

// Texts makes figures about texts (spec: Figures of texts). They follow from content, so they are
// no part of what an answer says as of a size. One answer owns it.
type Texts struct {
	Log Log
	// Content returns the content with a digest.
	Content func(ctx context.Context, digest proofs.Hash) ([]byte, error)
	// Hold makes the answer hold that much memory, in bytes.
	Hold func(bytes int64) error
	// Cache keeps figures for later answers; nil if none are kept.
	Cache *TextCache
	// PerByte is the memory that the answer needs for each byte of two texts, in bytes.
	PerByte int64

	held    int64
	decoder event.Decoder
}

// TextCache caches figures by the digests of the two texts. Ledgers do not share figures: the
// time of an answer would reveal to one ledger what another has. It is safe for concurrent use.
type TextCache struct {
	figures *lru.Cache[textKey, textdiff.Figures]
}

type textKey struct {
	ledger string
	a, b   proofs.Hash
}

// cachedFigures is the number of figures that a TextCache keeps, about 300 bytes each.
const cachedFigures = 1 << 15

// NewTextCache returns an empty cache.
func NewTextCache() *TextCache {
	figures, err := lru.New[textKey, textdiff.Figures](cachedFigures)
	if err != nil {
		panic(err) // the size is positive
	}
	return &TextCache{figures}
}

// Names of the content of an IPC record.
const (
	outputName  = "output"
	promptName  = "system_prompt"
	payloadName = "payload"
)

// maxTextWork bounds the work on the texts of one list, as textdiff counts it: less than a second.
const maxTextWork = 1 << 28

// textWork is the work that is done for one list.
type textWork uint64

func (w textWork) spent() bool { return w >= maxTextWork }

// Texts of two records, to compare.
type textPair struct {
	name string // of the content
	a, b uint64 // seqs
}

// change returns the figures of a pair.
func (t *Texts) change(ctx context.Context, pair textPair, work *textWork) (wire.TextChange, error) {
	if work.spent() {
		return wire.TextChange{Unavailable: wire.TextLimit}, nil
	}
	f, unavailable, err := t.figures(ctx, pair)
	if err != nil || unavailable != "" {
		return wire.TextChange{Unavailable: unavailable}, err
	}
	*work += textWork(f.Work + f.A.Bytes + f.B.Bytes)
	change := wire.TextChange{A: textLength(f.A), B: textLength(f.B), LengthChange: lengthChange(&f), Bounded: f.Bounded}
	similarity := wire.Decimal(f.Similarity)
	change.Similarity = &similarity
	return change, nil
}

// length returns the length of one record's content, in place of a change.
func (t *Texts) length(ctx context.Context, name string, seq uint64, work *textWork) (wire.TextChange, error) {
	change, err := t.change(ctx, textPair{name, seq, seq}, work)
	return wire.TextChange{Unavailable: change.Unavailable, B: change.B}, err
}

func textLength(l textdiff.Length) *wire.TextLength {
	return &wire.TextLength{Bytes: l.Bytes, Characters: l.Characters, Words: l.Words}
}

// lengthChange returns nil if the first text has no words.
func lengthChange(f *textdiff.Figures) *wire.Decimal {
	if f.A.Words == 0 {
		return nil
	}
	change := wire.Decimal(float64(f.B.Words)/float64(f.A.Words) - 1)
	return &change
}

// figures compares the texts of a pair.
func (t *Texts) figures(ctx context.Context, pair textPair) (f textdiff.Figures, unavailable wire.Unavailable, err error) {
	a, found, err := t.named(ctx, pair.a, pair.name)
	if err != nil || !found {
		return f, wire.TextNotPosted, err
	}
	b, found, err := t.named(ctx, pair.b, pair.name)
	if err != nil || !found {
		return f, wire.TextNotPosted, err
	}
	key := textKey{t.Log.Name(), a.Digest, b.Digest}
	cached := false
	if t.Cache != nil {
		f, cached = t.Cache.figures.Get(key)
	}
	if !cached {
		f, err = t.compare(ctx, a, b)
	}
	// This check follows the read, so that it sees a redaction that erased the bytes in between.
	if by, redactedErr := t.redactedBy(ctx, pair); redactedErr != nil || by != nil {
		return f, wire.TextRedacted, redactedErr
	}
	if err == nil && !cached && t.Cache != nil {
		t.Cache.figures.Add(key, f)
	}
	return f, "", err
}

// compare reads and compares two pieces of content.
func (t *Texts) compare(ctx context.Context, a, b event.Content) (textdiff.Figures, error) {
	textA, textB, err := t.read(ctx, a, b)
	if err != nil {
		return textdiff.Figures{}, err
	}
	return textdiff.Compare(textA, textB), nil
}

// read reads two pieces of content.
func (t *Texts) read(ctx context.Context, a, b event.Content) (textA, textB []byte, err error) {
	if need := textdiff.Memory(a.Size, b.Size) + t.PerByte*int64(a.Size+b.Size); need > t.held {
		if err := t.Hold(need); err != nil {
			return nil, nil, err
		}
		t.held = need
	}
	if textA, err = t.Content(ctx, a.Digest); err != nil {
		return nil, nil, fmt.Errorf("content %x: %w", a.Digest, err)
	}
	if a.Digest == b.Digest {
		return textA, textA, nil
	}
	if textB, err = t.Content(ctx, b.Digest); err != nil {
		return nil, nil, fmt.Errorf("content %x: %w", b.Digest, err)
	}
	return textA, textB, nil
}

// named returns the content of a record by its name. found is false if the record has none of that
// name.
func (t *Texts) named(ctx context.Context, seq uint64, name string) (c event.Content, found bool, err error) {
	entry, err := t.Log.Entry(ctx, seq)
	if err != nil {
		return c, false, fmt.Errorf("entry %d: %w", seq, err)
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

// redactedBy returns the event that redacts one of two records, or nil if none does.
func (t *Texts) redactedBy(ctx context.Context, pair textPair) (*uint64, error) {
	by, err := RedactedBy(ctx, t.Log, pair.a)
	if err == nil && by == nil && pair.b != pair.a {
		by, err = RedactedBy(ctx, t.Log, pair.b)
	}
	return by, err
}

// Names of the texts that a diff is of, and of the content that has them.
var diffed = map[string]string{"output": outputName, "prompt": promptName, "payload": payloadName, "passage": "content"}

// DiffOf is the parameters of a diff.
type DiffOf struct {
	Pair
	Name string // of the content of both records
}

// ParseDiff parses the parameters of a diff of two events of a log that has size events. of is
// output, prompt, payload, passage, or the name of any content.
func ParseDiff(p Parameters, size uint64) (d DiffOf, err error) {
	if d.Pair, err = parsePair("a record")(p); err != nil {
		return d, err
	}
	for i, seq := range [...]uint64{d.A, d.B} {
		if seq >= size {
			return d, invalid([...]string{"a", "b"}[i], "there is no event %d: the ledger has %d", seq, size)
		}
	}
	if d.Name = p["of"]; d.Name == "" {
		d.Name = outputName
	}
	if name, known := diffed[d.Name]; known {
		d.Name = name
	}
	return d, nil
}

// MaxDiff bounds the sum of the sizes of two texts whose diff is answered, in bytes.
const MaxDiff = 4 << 20

// Diff returns the difference of two texts, word by word. redactedBy is the event that redacts one
// of the two records, of; there is no difference then.
func (t *Texts) Diff(ctx context.Context, d DiffOf) (answer *wire.TextDiff, of uint64, redactedBy *uint64, err error) {
	var contents [2]event.Content
	for i, seq := range [...]uint64{d.A, d.B} {
		var found bool
		if contents[i], found, err = t.named(ctx, seq, d.Name); err != nil {
			return nil, 0, nil, err
		}
		if !found {
			return nil, 0, nil, missing("event %d has no content %q; GET %s/records/%d lists its content", seq, d.Name, base(t.Log), seq)
		}
	}
	a, b := contents[0], contents[1]
	var textA, textB []byte
	tooLarge := a.Size+b.Size > MaxDiff
	if !tooLarge {
		textA, textB, err = t.read(ctx, a, b)
	}
	// This check follows the read, so that it sees a redaction that erased the bytes in between.
	for _, seq := range [...]uint64{d.A, d.B} {
		by, redactedErr := RedactedBy(ctx, t.Log, seq)
		if redactedErr != nil || by != nil {
			return nil, seq, by, redactedErr
		}
	}
	switch {
	case err != nil:
		return nil, 0, nil, err
	case tooLarge:
		return nil, 0, nil, &Error{WrongKind, "of", fmt.Sprintf("the texts have %d bytes together, and a diff takes at most %d; read the content of both and compare them yourself", a.Size+b.Size, MaxDiff)}
	}
	f, edits := textdiff.Diff(textA, textB)
	answer = &wire.TextDiff{Of: d.Name, Similarity: wire.Decimal(f.Similarity), LengthChange: lengthChange(&f), Bounded: f.Bounded,
		A:     wire.DiffedText{Seq: d.A, SHA256: fmt.Sprintf("%x", a.Digest), TextLength: *textLength(f.A)},
		B:     wire.DiffedText{Seq: d.B, SHA256: fmt.Sprintf("%x", b.Digest), TextLength: *textLength(f.B)},
		Edits: make([]wire.TextEdit, len(edits))}
	for i, e := range edits {
		answer.Edits[i] = wire.TextEdit{Op: wire.EditOp(e.Op), Text: string(e.Text)}
	}
	return answer, 0, nil, nil
}

// quartiles returns nil for an empty list. Between two figures it interpolates. It sorts the list.
func quartiles(list []float64) *wire.Quartiles {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	at := func(part float64) wire.Decimal {
		place := part * float64(len(list)-1)
		below := int(place)
		above := min(below+1, len(list)-1)
		return wire.Decimal(list[below] + (place-float64(below))*(list[above]-list[below]))
	}
	return &wire.Quartiles{Q1: at(0.25), Median: at(0.5), Q3: at(0.75)}
}

// outputChange returns the change of the output between two runs, or the length of the output of b
// if a is nil.
func (v *View) outputChange(a *uint64, b uint64, work *textWork) (*wire.TextChange, error) {
	var change wire.TextChange
	var err error
	if a == nil {
		change, err = v.Texts.length(v.Context, outputName, b, work)
	} else {
		change, err = v.Texts.change(v.Context, textPair{outputName, *a, b}, work)
	}
	return &change, err
}

// attributionTexts returns nil if the answer has no figures about texts.
func (v *View) attributionTexts(pair Pair) (texts *wire.AttributionTexts, err error) {
	if v.Texts == nil {
		return nil, nil
	}
	texts = new(wire.AttributionTexts)
	for _, text := range [...]struct {
		name string
		to   *wire.TextChange
	}{{outputName, &texts.Output}, {promptName, &texts.Prompt}, {payloadName, &texts.Payload}} {
		var work textWork
		if *text.to, err = v.Texts.change(v.Context, textPair{text.name, pair.A, pair.B}, &work); err != nil {
			return nil, err
		}
	}
	return texts, nil
}
