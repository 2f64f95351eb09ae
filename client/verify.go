package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"colophon/client/wire"
	"colophon/proofs"
)

// expected holds the values that the receipt of a write must have.
type expected struct {
	kind    wire.Kind
	anyKind bool // the request does not state the kind
	// digest is the digest of the idempotency key, as the event states it; "" if the write has no key.
	digest string
}

// expect returns the values that must be in the receipt of a write with the given key or, if key is empty, the
// given run_id.
func expect(kind wire.Kind, key, run string) expected {
	switch {
	case key != "":
		return expected{kind: kind, digest: digest("key\x00" + key)}
	case run != "":
		return expected{kind: kind, digest: digest("run_id\x00" + string(kind) + "\x00" + run)}
	}
	return expected{kind: kind}
}

// expectText is like expect, but reads its arguments from a JSON-encoded line of a batch. For a [wire.ForeignRecordLine],
// the server chooses the kind and, unless the line has an idempotency key, the key.
func expectText(text []byte) expected {
	var line struct {
		Kind   wire.Kind       `json:"kind"`
		Format string          `json:"format"`
		Record json.RawMessage `json:"record"`

		IdempotencyKey string `json:"idempotency_key"`
	}
	var record struct {
		RunID string `json:"run_id"`
	}
	switch {
	case json.Unmarshal(text, &line) != nil:
		return expected{} // the server will reject the line
	case line.Format != "":
		want := expect("", line.IdempotencyKey, "")
		want.anyKind = true
		return want
	case json.Unmarshal(line.Record, &record) != nil:
		return expected{} // the server will reject the line
	}
	return expect(line.Kind, line.IdempotencyKey, record.RunID)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// VerifyReceipt verifies the signature, inclusion proof, chain link and members of a receipt with
// the client's verifier keys. It sends no request. If the client has no keys for the ledger, it
// returns [ErrNoVerifierKeys]. Its other errors are like those of proofs.Receipt.Verify. If
// VerifyReceipt returns nil, the signed event confirms all fields of the receipt except Replayed,
// Imported and the DerivedMembers other than Incomplete.
func (l *Ledger) VerifyReceipt(receipt *wire.Receipt) error {
	verifiers := l.client.verifiers[l.name]
	if len(verifiers) == 0 {
		return ErrNoVerifierKeys
	}
	text, err := json.Marshal(receipt)
	if err != nil {
		return fmt.Errorf("client: encoding the receipt: %w", err)
	}
	r, err := proofs.ParseReceipt(text)
	if err != nil {
		return err
	}
	if r.Ledger != l.name {
		return fmt.Errorf("%w: the receipt is for ledger %.100q, not %q", proofs.ErrFieldMismatch, r.Ledger, l.name)
	}
	return r.Verify(verifiers...)
}

func (l *Ledger) hasVerifiers() bool { return len(l.client.verifiers[l.name]) > 0 }

// accept verifies the receipt of a write if the client has keys. It also checks that the event has the kind and the
// idempotency key that were sent, because a receipt for a different record would verify too.
func (l *Ledger) accept(receipt *wire.Receipt, want expected) error {
	if !l.hasVerifiers() {
		return nil
	}
	err := l.VerifyReceipt(receipt)
	if err == nil {
		err = want.match(receipt)
	}
	if err != nil {
		return &ReceiptError{Receipt: receipt, Err: err}
	}
	return nil
}

// acceptNested checks that a proof is for the requested event, and verifies it if the client has keys.
func (l *Ledger) acceptNested(proof *wire.NestedProof, seq uint64) (*wire.NestedProof, error) {
	if proof.Receipt.Seq != seq || proof.Receipt.Ledger != l.name {
		return nil, fmt.Errorf("%w: the proof is for event %d of ledger %.100q, not for event %d of %q", ErrUnexpectedResponse, proof.Receipt.Seq, proof.Receipt.Ledger, seq, l.name)
	}
	if !l.hasVerifiers() {
		return proof, nil
	}
	text, err := json.Marshal(proof)
	if err != nil {
		return nil, fmt.Errorf("client: encoding the proof: %w", err)
	}
	nested, err := proofs.ParseNestedProof(text)
	if err == nil {
		err = nested.Verify(l.client.verifiers[l.name]...)
	}
	if err != nil {
		return nil, fmt.Errorf("client: the proof of a part of event %d of ledger %s does not verify: %w", seq, l.name, err)
	}
	return proof, nil
}

func (want expected) match(receipt *wire.Receipt) error {
	var event struct {
		Record struct {
			IdempotencyKey string `json:"idempotency_key"`
		} `json:"record"`
	}
	if err := json.Unmarshal(receipt.Event, &event); err != nil {
		return fmt.Errorf("%w: parsing the event: %w", proofs.ErrMalformed, err)
	}
	if !want.anyKind && receipt.Kind != want.kind {
		return fmt.Errorf("%w: the event is of kind %.60q, but the request was of kind %q", proofs.ErrFieldMismatch, receipt.Kind, want.kind)
	}
	if want.digest != "" && event.Record.IdempotencyKey != want.digest {
		return fmt.Errorf("%w: the event's idempotency key differs from the request's", proofs.ErrFieldMismatch)
	}
	return nil
}
