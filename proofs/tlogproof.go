package proofs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// TlogProof is a receipt in the common format of .tlog-proof files (c2sp.org/tlog-proof). Its
// extra data is the entry, so the file can be verified on its own (spec: tlog-proof files).
type TlogProof struct {
	// Extra is the entry, or empty. Other programs can store other data here, so Extra must not be
	// treated as the entry until Verify succeeds.
	Extra      []byte
	Index      uint64 // seq of the entry
	Hashes     []Hash // inclusion proof, from the leaf upwards
	Checkpoint []byte // signed note
}

const tlogProofHeader = "c2sp.org/tlog-proof@v1\n"

// TlogProof returns the receipt's proof as a TlogProof, or ErrNoProof if the receipt is minimal.
func (r *Receipt) TlogProof() (*TlogProof, error) {
	if r.Proof == nil {
		return nil, fmt.Errorf("%w: the receipt of event %d is minimal, so it has no proof", ErrNoProof, r.Seq)
	}
	return &TlogProof{
		Extra:      AppendEntry(nil, r.PrevEventHash, r.Proof.Event),
		Index:      r.Proof.Inclusion.LeafIndex,
		Hashes:     r.Proof.Inclusion.Hashes,
		Checkpoint: r.Proof.Checkpoint,
	}, nil
}

// Append appends the proof to dst as the text of a .tlog-proof file.
func (p *TlogProof) Append(dst []byte) []byte {
	dst = append(dst, tlogProofHeader...)
	if len(p.Extra) > 0 {
		dst = base64.StdEncoding.AppendEncode(append(dst, "extra "...), p.Extra)
		dst = append(dst, '\n')
	}
	dst = strconv.AppendUint(append(dst, "index "...), p.Index, 10)
	dst = append(dst, '\n')
	for _, h := range p.Hashes {
		dst = append(base64.StdEncoding.AppendEncode(dst, h[:]), '\n')
	}
	return append(append(dst, '\n'), p.Checkpoint...)
}

// ParseTlogProof parses text in the exact form that Append writes. It returns ErrMalformed for any
// other text. It does not verify the checkpoint.
func ParseTlogProof(text []byte) (*TlogProof, error) {
	head, checkpoint, ok := bytes.Cut(text, []byte("\n\n"))
	if !ok || len(checkpoint) == 0 {
		return nil, fmt.Errorf("%w: the tlog-proof has no checkpoint", ErrMalformed)
	}
	if lines := bytes.Count(head, []byte("\n")) + 1; lines > maxPath+3 { // before the text is split, which needs memory for each line
		return nil, fmt.Errorf("%w: the tlog-proof has too many lines (%d)", ErrMalformed, lines)
	}
	p := &TlogProof{Checkpoint: checkpoint}
	if err := p.parseHead(string(head) + "\n"); err != nil {
		return nil, err
	}
	if !bytes.Equal(p.Append(nil), text) {
		return nil, fmt.Errorf("%w: the tlog-proof is not in canonical form", ErrMalformed)
	}
	return p, nil
}

// parseHead parses the lines before the checkpoint.
func (p *TlogProof) parseHead(head string) error {
	rest, ok := strings.CutPrefix(head, tlogProofHeader)
	if !ok {
		return fmt.Errorf("%w: the first line of the tlog-proof must be %q", ErrMalformed, tlogProofHeader)
	}
	lines := strings.Split(strings.TrimSuffix(rest, "\n"), "\n")
	var err error
	if extra, ok := strings.CutPrefix(lines[0], "extra "); ok {
		if p.Extra, err = base64.StdEncoding.DecodeString(extra); err != nil {
			return fmt.Errorf("%w: decoding the extra data of the tlog-proof: %w", ErrMalformed, err)
		}
		lines = lines[1:]
	}
	if len(lines) == 0 || len(lines)-1 > maxPath {
		return fmt.Errorf("%w: the tlog-proof has too few or too many lines (%d)", ErrMalformed, len(lines))
	}
	if p.Index, err = strconv.ParseUint(strings.TrimPrefix(lines[0], "index "), 10, 64); err != nil {
		return fmt.Errorf("%w: parsing the index of the tlog-proof: %w", ErrMalformed, err)
	}
	for _, line := range lines[1:] {
		h, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(h) != HashSize {
			return fmt.Errorf("%w: the tlog-proof has %.100q in place of a hash", ErrMalformed, line)
		}
		p.Hashes = append(p.Hashes, Hash(h))
	}
	return nil
}

// Verify calls VerifyEntry with the entry in Extra. It returns ErrNoProof if Extra is empty.
func (p *TlogProof) Verify(verifiers ...*Verifier) error {
	if len(p.Extra) == 0 {
		return fmt.Errorf("%w: the tlog-proof has no extra data, so it does not contain the entry", ErrNoProof)
	}
	_, err := p.VerifyEntry(p.Extra, verifiers...)
	return err
}

// VerifyEntry verifies that the proof is for the given entry, regardless of p.Extra, and returns
// the receipt for the entry's event. It returns an error from OpenCheckpoint, ErrInclusion, an
// error from NewReceipt if the proved entry does not contain a valid event, or ErrFieldMismatch if the
// event's seq is not the leaf index. It need not check the chain link, because the receipt's hashes
// are computed from the proved entry.
func (p *TlogProof) VerifyEntry(entry []byte, verifiers ...*Verifier) (*Receipt, error) {
	checkpoint, err := OpenCheckpoint(p.Checkpoint, verifiers...)
	if err != nil {
		return nil, err
	}
	err = VerifyInclusion(LeafHash(entry), p.Index, checkpoint.Size, p.Hashes, checkpoint.Root)
	if err != nil {
		return nil, err
	}
	r, err := NewReceipt(entry)
	if err != nil {
		return nil, err
	}
	if r.Seq != p.Index {
		return nil, fmt.Errorf("%w: the index is %d, but the event's seq is %d", ErrFieldMismatch, p.Index, r.Seq)
	}
	r.Proof = &ReceiptProof{
		Event:      entry[HashSize:],
		Inclusion:  InclusionProof{LeafIndex: p.Index, TreeSize: checkpoint.Size, Hashes: p.Hashes},
		Checkpoint: p.Checkpoint,
	}
	return r, nil
}
