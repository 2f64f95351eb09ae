// Package pack makes audit packs: one HTML file with chosen events of a ledger, the
// content that they name, and all that proves them. Any browser opens it, and the page
// verifies what is in it without a network; Parse and Verify do the same here, and never
// run the page.
//
// It is pure: values in, bytes out, and back.
package pack

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"colophon/proofs"
)

// Format names the format of a pack's data, and its version.
const Format = "colophon-audit-pack@1"

// ErrContent: kept bytes are not those that an event names, or no event names them.
var ErrContent = errors.New("pack: content is not what the event names")

// Why a pack has content, or none.
const (
	ContentIncluded = "included" // all that is not erased
	ContentLeftOut  = "left out" // whoever exported it did not want it in
	ContentNoRight  = "no right" // whoever exported it may not read it
)

// Pack is the data of an audit pack. Ledger, Exported, Content and RedactedBy are the
// word of whoever made it; all else is proved, or checked against what is.
type Pack struct {
	Format     string   `json:"format"`
	Ledger     string   `json:"ledger"`
	Exported   string   `json:"exported"` // RFC 3339, UTC
	Keys       []string `json:"verifier_keys"`
	Checkpoint string   `json:"checkpoint"` // signed note
	// Records are in ascending order of their seqs, none twice.
	Records []Record `json:"records"`
	Content string   `json:"content"` // ContentIncluded, ContentLeftOut or ContentNoRight
	// Contents are the pieces of content that records name, by SHA-256 in
	// hexadecimal; several records may name one.
	Contents map[string][]byte `json:"contents"`
}

// Record is an event of any kind and its place in the tree of the checkpoint.
type Record struct {
	Seq       uint64   `json:"seq"`
	Entry     []byte   `json:"entry"`
	Inclusion []string `json:"inclusion"` // hexadecimal, from the leaf upwards
	// RedactedBy is the event that erased the record's content. It is in the pack too.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
}

// New is a pack without records; checkpoint is the one that all of them are proved at.
func New(ledger, exported string, keys []string, checkpoint []byte) *Pack {
	return &Pack{Format: Format, Ledger: ledger, Exported: exported, Keys: keys, Checkpoint: string(checkpoint),
		Records: []Record{}, Content: ContentIncluded, Contents: map[string][]byte{}}
}

// Add appends the event of a receipt, which has its proof.
func (p *Pack) Add(r *proofs.Receipt, redactedBy *uint64) {
	path := make([]string, len(r.Proof.Inclusion.Hashes))
	for i, h := range r.Proof.Inclusion.Hashes {
		path[i] = hex.EncodeToString(h[:])
	}
	p.Records = append(p.Records, Record{Seq: r.Seq, Inclusion: path, RedactedBy: redactedBy,
		Entry: proofs.AppendEntry(nil, r.PrevEventHash, r.Proof.Event)})
}

// encode writes the data as JSON that may stand in a script element as it is: it has
// no < in it.
func (p *Pack) encode() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode audit pack: %w", err)
	}
	return text, nil
}

// decode reads what encode wrote; any other spelling is ErrMalformed, so that nothing
// can read it otherwise.
func decode(text []byte) (*Pack, error) {
	p := new(Pack)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%w: data of the audit pack: %w", proofs.ErrMalformed, err)
	}
	if p.Format != Format {
		return nil, fmt.Errorf("%w: format of the audit pack is %.100q, known is %q", proofs.ErrMalformed, p.Format, Format)
	}
	if p.Keys == nil || p.Records == nil || p.Contents == nil {
		return nil, fmt.Errorf("%w: the audit pack lacks keys, records or contents", proofs.ErrMalformed)
	}
	again, err := p.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: data of the audit pack in an unusual spelling", proofs.ErrMalformed)
	}
	return p, nil
}
