package client

import (
	"context"
	"fmt"

	"colophon/client/wire"
	"colophon/proofs"
)

// LogService reads the transparency log (C2SP tlog-tiles) and its proofs. A public log needs no token.
type LogService struct{ ledger *Ledger }

// Checkpoint reads the newest checkpoint as a signed note: GET /log/checkpoint. If the client has keys, Checkpoint
// verifies the note. If verification fails, it returns an error that wraps the one from proofs.OpenCheckpoint.
// Verification does not show that the checkpoint is the newest, or that other clients get the same checkpoint.
func (s *LogService) Checkpoint(ctx context.Context) ([]byte, error) {
	note, err := s.ledger.client.call(ctx, get(s.ledger.path+"/log/checkpoint", nil))
	if err != nil || !s.ledger.hasVerifiers() {
		return note, err
	}
	if _, err := proofs.OpenCheckpoint(note, s.ledger.client.verifiers[s.ledger.name]...); err != nil {
		return nil, fmt.Errorf("client: verifying the checkpoint of ledger %s: %w", s.ledger.name, err)
	}
	return note, nil
}

// Keys reads the verifier keys of the log: GET /log/key. It checks that the predecessor of each key signed a handover
// that names the key. It relies on the server for the tree sizes up to which each key signed. Do not trust a key
// merely because the response contains it. If you already trust one of the keys, you can also trust its successors:
// pass the result of VerifiersFrom to [WithVerifiers].
func (s *LogService) Keys(ctx context.Context) (*proofs.KeyHistory, error) {
	text, err := s.ledger.client.call(ctx, get(s.ledger.path+"/log/key", nil))
	if err != nil {
		return nil, err
	}
	history, err := proofs.ParseKeyHistory(text)
	if err != nil {
		return nil, fmt.Errorf("%w: parsing the keys from log/key: %w", ErrUnexpectedResponse, err)
	}
	return history, nil
}

// Tile reads a hash tile or an entry bundle: GET /log/tile/{path}. A hash tile consists of 32-byte hashes. Tile
// checks the length of a hash tile, but not the hashes.
func (s *LogService) Tile(ctx context.Context, path proofs.TilePath) ([]byte, error) {
	tile, err := s.ledger.client.call(ctx, get(s.ledger.path+"/log/"+path.String(), nil))
	if err == nil && !path.IsEntryBundle && len(tile) != path.Width*proofs.HashSize {
		return nil, fmt.Errorf("%w: tile %s has %d bytes instead of %d", ErrUnexpectedResponse, path, len(tile), path.Width*proofs.HashSize)
	}
	return tile, err
}

// Entries reads the entries of one bundle: GET /log/tile/entries/{index}. width is the number of entries: 256, or
// fewer for the last bundle of the tree. Entries does not verify them.
func (s *LogService) Entries(ctx context.Context, index uint64, width int) ([][]byte, error) {
	bundle, err := s.Tile(ctx, proofs.TilePath{IsEntryBundle: true, Index: index, Width: width})
	if err != nil {
		return nil, err
	}
	entries, err := proofs.ParseBundle(bundle)
	if err != nil {
		return nil, fmt.Errorf("%w: parsing entry bundle %d: %w", ErrUnexpectedResponse, index, err)
	}
	if len(entries) != width {
		return nil, fmt.Errorf("%w: entry bundle %d has %d entries instead of %d", ErrUnexpectedResponse, index, len(entries), width)
	}
	return entries, nil
}

// InclusionProof reads the inclusion proof of an event in the tree of size treeSize, or in the current tree if
// treeSize is 0: GET /proofs/inclusion. Verify the proof with proofs.VerifyInclusion.
func (s *LogService) InclusionProof(ctx context.Context, seq, treeSize uint64) (*wire.ProofAnswer, error) {
	q := size(treeSize)
	q.Set("seq", decimal(seq))
	return answer[wire.ProofAnswer](ctx, s.ledger.client, get(s.ledger.path+"/proofs/inclusion", q))
}

// ConsistencyProof reads the proof that the tree of size second extends the tree of size first: GET /proofs/consistency.
// If second is 0, the current tree size is used. Verify the proof with proofs.VerifyConsistency.
func (s *LogService) ConsistencyProof(ctx context.Context, first, second uint64) (*wire.ProofAnswer, error) {
	q := make(map[string][]string)
	q["first"] = []string{decimal(first)}
	setCount(q, "second", second)
	return answer[wire.ProofAnswer](ctx, s.ledger.client, get(s.ledger.path+"/proofs/consistency", q))
}
