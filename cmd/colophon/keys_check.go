package main

import (
	"context"
	"encoding/json"
	"fmt"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/monitor"
)

// checkServedKeys checks what a server says of the keys of its log, which is only its word,
// against the log: the checkpoint of now is signed by all keys that are said to sign, a
// trusted one or one that follows it among them, and each change of keys is an event of
// the tree that this checkpoint signs.
func checkServedKeys(ctx context.Context, fetch *monitor.Fetcher, said *proofs.KeyHistory, trusted []*proofs.Verifier) error {
	log, err := monitor.OpenPublishedLog(ctx, fetch, said.Following(trusted...), 1)
	if err != nil {
		return err
	}
	checkpoint, err := said.OpenCheckpoint(log.Published.Checkpoint, trusted...)
	if err != nil {
		return cli.Exitf(cli.ExitFailed, "what the server says of the keys is not so: %w", err)
	}
	found, err := keysInTree(ctx, log, checkpoint, said)
	if err != nil {
		return cli.Exitf(cli.ExitFailed, "what the server says of the keys is not shown by its log: %w", err)
	}
	before, err := json.Marshal(said)
	if err != nil {
		return err
	}
	after, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if string(before) != string(after) {
		return cli.Exitf(cli.ExitFailed, "what the server says of the keys is not what its log says:\n%s\nthe log says\n%s", before, after)
	}
	return nil
}

// keysInTree is the history of a log's keys as the events say at which it is said to have
// changed. Each of them is shown to be in the tree of the checkpoint.
func keysInTree(ctx context.Context, log *monitor.PublishedLog, checkpoint proofs.Checkpoint, said *proofs.KeyHistory) (*proofs.KeyHistory, error) {
	read := func(level uint8, index uint64) ([]byte, error) { return log.Tile(ctx, level, index) }
	tree, err := proofs.OpenTree(checkpoint.Size, read, nil)
	if err != nil {
		return nil, err
	}
	if root := tree.Root(); root != checkpoint.Root {
		return nil, fmt.Errorf("its tiles lead to the root %x, %x is signed", root, checkpoint.Root)
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, read)
	entryAt := func(seq uint64) ([]byte, error) {
		path, err := prover.Inclusion(seq, checkpoint.Size)
		if err != nil {
			return nil, err
		}
		for entry, err := range log.Entries(ctx, seq) {
			if err != nil {
				return nil, err
			}
			return entry, proofs.VerifyInclusion(proofs.LeafHash(entry), seq, checkpoint.Size, path, checkpoint.Root)
		}
		return nil, fmt.Errorf("entry %d is not there", seq)
	}
	entry, err := entryAt(0)
	if err != nil {
		return nil, err
	}
	found, err := proofs.BeginKeyHistory(entry)
	if err != nil {
		return nil, err
	}
	for _, seq := range said.ChangedAt() {
		if entry, err = entryAt(seq); err == nil {
			err = found.AddEntry(seq, entry)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
