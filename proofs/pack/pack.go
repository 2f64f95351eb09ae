// Package pack reads and writes audit packs (spec: Audit packs). A pack is one HTML file that
// contains selected events of a ledger, their content, and everything needed to prove them. Any
// browser can open the file, and the page verifies itself without network access. Parse and Verify
// do the same without running the page.
//
// The package does no I/O.
package pack

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"colophon/proofs"
)

// Format identifies the format of a pack's data and its version.
const Format = "colophon-audit-pack@1"

// ErrContentMismatch means that the pack's content does not match the events. The content is altered or
// superfluous, or the pack wrongly reports it as erased.
var ErrContentMismatch = errors.New("pack: content does not match the events")

// Possible values of Pack.ContentStatus.
const (
	ContentStatusIncluded  = "included" // the pack has all content that is not erased
	ContentStatusOmitted   = "left out" // the exporter chose to leave content out
	ContentStatusForbidden = "no right" // the exporter was not allowed to read content
)

// Pack is the data of an audit pack. Ledger, ExportedAt, ContentStatus, and PackedEvent.RedactedBy
// are the exporter's own statements. Verify proves everything else or checks it against proved
// data.
type Pack struct {
	Format       string   `json:"format"`        // the constant Format
	Ledger       string   `json:"ledger"`        // name of the ledger
	ExportedAt   string   `json:"exported"`      // RFC 3339, UTC
	VerifierKeys []string `json:"verifier_keys"` // keys of the log, according to the exporter; Verify does not use them
	Checkpoint   string   `json:"checkpoint"`    // signed note
	// Events are in ascending order of seq, without duplicates.
	Events        []PackedEvent `json:"records"`
	ContentStatus string        `json:"content"` // ContentStatusIncluded, ContentStatusOmitted, or ContentStatusForbidden
	// Contents maps the SHA-256 of a piece of content, in hexadecimal, to its bytes. Several
	// records can refer to the same piece.
	Contents map[string][]byte `json:"contents"`
}

// PackedEvent is an event of any kind, with the proof that it is in the checkpoint's tree.
type PackedEvent struct {
	Seq             uint64   `json:"seq"`
	Entry           []byte   `json:"entry"`     // previous event_hash, followed by the event body
	InclusionHashes []string `json:"inclusion"` // hexadecimal hashes, from the leaf upwards
	// RedactedBy is the seq of the event that erased the record's content. The pack includes
	// that event.
	RedactedBy *uint64 `json:"redacted_by,omitempty"`
}

// New returns a pack without events. Events added later must have inclusion proofs for the given
// checkpoint.
func New(ledger, exportedAt string, verifierKeys []string, checkpoint []byte) *Pack {
	return &Pack{Format: Format, Ledger: ledger, ExportedAt: exportedAt, VerifierKeys: verifierKeys, Checkpoint: string(checkpoint),
		Events: []PackedEvent{}, ContentStatus: ContentStatusIncluded, Contents: map[string][]byte{}}
}

// Add appends the event in r, which must contain a proof. redactedBy is the seq of the event that
// erased the event's content, or nil if the content was not erased.
func (p *Pack) Add(r *proofs.Receipt, redactedBy *uint64) {
	path := make([]string, len(r.Proof.Inclusion.Hashes))
	for i, h := range r.Proof.Inclusion.Hashes {
		path[i] = hex.EncodeToString(h[:])
	}
	p.Events = append(p.Events, PackedEvent{Seq: r.Seq, InclusionHashes: path, RedactedBy: redactedBy,
		Entry: proofs.AppendEntry(nil, r.PrevEventHash, r.Proof.Event)})
}

// encode returns the pack as JSON in which the character < is escaped, so that a script element can
// contain it.
func (p *Pack) encode() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the audit pack: %w", err)
	}
	return text, nil
}

// minBytesPerComma bounds the memory of decode, because decoding an element of three bytes needs many
// more bytes. In a pack, at least 60 bytes separate two commas on average, because most elements are
// hashes or entries. allowedCommas is for the members of the pack itself.
const (
	minBytesPerComma = 48
	allowedCommas    = 1000
)

// decode parses the output of encode. It returns ErrMalformed for any other encoding of the same
// data, so that no two parsers can read it differently.
func decode(text []byte) (*Pack, error) {
	if commas := bytes.Count(text, []byte(",")); commas > allowedCommas+len(text)/minBytesPerComma {
		return nil, fmt.Errorf("%w: the data of the audit pack has %d commas in %d bytes, which is too many", proofs.ErrMalformed, commas, len(text))
	}
	p := new(Pack)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("%w: reading the data of the audit pack: %w", proofs.ErrMalformed, err)
	}
	if p.Format != Format {
		return nil, fmt.Errorf("%w: the audit pack has the format %.100q, not %q", proofs.ErrMalformed, p.Format, Format)
	}
	if p.VerifierKeys == nil || p.Events == nil || p.Contents == nil {
		return nil, fmt.Errorf("%w: the audit pack lacks \"verifier_keys\", \"records\", or \"contents\"", proofs.ErrMalformed)
	}
	again, err := p.encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: the data of the audit pack is not in canonical JSON form", proofs.ErrMalformed)
	}
	return p, nil
}
