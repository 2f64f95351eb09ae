package main

import (
	"context"
	"encoding/json"
	"fmt"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/monitor/fetch"
)

// checkServedKeys checks the keys that a server lists against its log. Every key in use at the
// current size must have signed the checkpoint. At least one of these keys must be a trusted key or
// a successor of one. Each key change must be an event in the checkpoint's tree.
func checkServedKeys(ctx context.Context, from *fetch.Client, listed *proofs.KeyHistory, trusted []*proofs.Verifier) error {
	log, err := fetch.OpenLog(ctx, from, listed.VerifiersFrom(trusted...), 1)
	if err != nil {
		return err
	}
	checkpoint, err := listed.OpenCheckpoint(log.Checkpoint(), trusted...)
	if err != nil {
		return cli.ExitErrorf(cli.ExitFailed, "do not trust the server's list of keys: it does not match the checkpoint: %w", err)
	}
	found, err := readKeysFromTree(ctx, log, checkpoint, listed)
	if err != nil {
		return cli.ExitErrorf(cli.ExitFailed, "do not trust the server's list of keys: the log does not confirm it: %w", err)
	}
	before, err := json.Marshal(listed)
	if err != nil {
		return err
	}
	after, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if string(before) != string(after) {
		return cli.ExitErrorf(cli.ExitFailed, "do not trust the server's list of keys: it differs from the keys in the log. The server lists:\n%s\nThe log contains:\n%s", before, after)
	}
	return nil
}

// readKeysFromTree derives the key history of a log from its events. listed says which events contain
// key changes. readKeysFromTree checks that each of these events is in the checkpoint's tree.
func readKeysFromTree(ctx context.Context, log *fetch.Log, checkpoint proofs.Checkpoint, listed *proofs.KeyHistory) (*proofs.KeyHistory, error) {
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(checkpoint.Size, read, nil)
	if err != nil {
		return nil, err
	}
	if root := tree.Root(); root != checkpoint.Root {
		return nil, fmt.Errorf("the root computed from the tiles is %x, but the checkpoint's root is %x", root, checkpoint.Root)
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, read)
	entryAt := func(seq uint64) ([]byte, error) {
		path, err := prover.InclusionProof(seq, checkpoint.Size)
		if err != nil {
			return nil, err
		}
		for entry, err := range log.Entries(ctx, seq) {
			if err != nil {
				return nil, err
			}
			return entry, proofs.VerifyInclusion(proofs.LeafHash(entry), seq, checkpoint.Size, path, checkpoint.Root)
		}
		return nil, fmt.Errorf("entry %d is missing", seq)
	}
	entry, err := entryAt(0)
	if err != nil {
		return nil, err
	}
	found, err := proofs.NewKeyHistoryFromEntry(entry)
	if err != nil {
		return nil, err
	}
	for _, seq := range listed.ChangeSeqs() {
		if entry, err = entryAt(seq); err == nil {
			err = found.AddEntry(seq, entry)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
