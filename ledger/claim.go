package ledger

import (
	"context"
	"fmt"
	"sync"

	"colophon/ledger/event"
	"colophon/ledger/record"
	"colophon/storage"
)

var decoders = sync.Pool{New: func() any { return new(event.Decoder) }}

// checkClaim checks that the event at claim.Seq claims the key with the digest claim.KeyDigest for
// the record with the digest claim.RecordDigest. It returns the event's entry. If the event does
// not claim the key for that record, the error wraps ErrKeyClaimMismatch.
func (r reader) checkClaim(claim storage.Claim) ([]byte, error) {
	// The sequencer and its other writers wait for this read.
	entry, err := r.Entry(storage.Impatient(context.Background()), claim.Seq)
	if err != nil {
		return nil, fmt.Errorf("reading event %d, referenced by an idempotency key: %w", claim.Seq, err)
	}
	decoder := decoders.Get().(*event.Decoder)
	defer decoders.Put(decoder)
	e, err := decoder.Decode(entry)
	if err != nil {
		return nil, fmt.Errorf("%w: key %x refers to event %d, which cannot be decoded: %w", ErrKeyClaimMismatch, claim.KeyDigest, claim.Seq, err)
	}
	key := e.ClaimedIdempotencyKey()
	if key == nil || *key != claim.KeyDigest || record.DigestWithKind(e.Kind, e.RecordDigest()) != claim.RecordDigest {
		return nil, fmt.Errorf("%w: key %x refers to event %d, so nothing was recorded; stop the server and run \"colophon fsck\"", ErrKeyClaimMismatch, claim.KeyDigest, claim.Seq)
	}
	return entry, nil
}
