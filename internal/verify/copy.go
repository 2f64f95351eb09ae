package verify

import (
	"fmt"

	"colophon/proofs"
)

// PublishedCopy is a published copy of a log. verifiers uses it to check that the tree in a file's
// checkpoint is a prefix of the copy's tree.
type PublishedCopy struct {
	Location   string             // the location of the copy, for messages
	KeyHistory *proofs.KeyHistory // the log's keys
	Checkpoint []byte             // signed note
	ReadTile   proofs.TileReader  // reads a tile of the log's tree from the copy
}

// verifiers returns the log's oldest trusted key and all keys that succeeded it. The copy's
// checkpoint must be signed with the log's newest key. Each returned key accepts a checkpoint only
// if the copy's tree extends the checkpoint's tree. It rejects any other checkpoint with an error
// that wraps ErrNotPrefix or says that the copy is too short.
func (c *PublishedCopy) verifiers(trusted []*proofs.Verifier) ([]*proofs.Verifier, error) {
	known := c.KeyHistory.VerifiersFrom(trusted...)
	if len(known) == 0 {
		return nil, fmt.Errorf("%w: the log at %s has the key %s", proofs.ErrWrongKey, c.Location, c.KeyHistory.CurrentKey())
	}
	signed, err := proofs.OpenCheckpoint(c.Checkpoint, c.KeyHistory.CurrentKey())
	if err != nil {
		return nil, fmt.Errorf("verifying the checkpoint at %s: %w", c.Location, err)
	}
	tree, err := proofs.OpenTree(signed.Size, c.ReadTile, nil)
	if err != nil {
		return nil, fmt.Errorf("reading the tiles at %s: %w", c.Location, err)
	}
	if tree.Root() != signed.Root {
		return nil, fmt.Errorf("the tiles at %s have the root %x, but the checkpoint has %x; audit the copy", c.Location, tree.Root(), signed.Root)
	}
	prover := proofs.NewProver(tree.Snapshot(), nil, c.ReadTile)
	accept := func(earlier proofs.Checkpoint) error {
		switch {
		case earlier.Origin != signed.Origin:
			return fmt.Errorf("%w: the earlier checkpoint has the origin %.100q, but the log at %s has %.100q", ErrNotPrefix, earlier.Origin, c.Location, signed.Origin)
		case earlier.Size > signed.Size:
			return fmt.Errorf("%s has only %d events, but the file's checkpoint covers %d; try again when the copy has caught up", c.Location, signed.Size, earlier.Size)
		}
		root, err := prover.Root(earlier.Size)
		if err != nil {
			return fmt.Errorf("reading the tiles at %s: %w", c.Location, err)
		}
		if root != earlier.Root {
			return fmt.Errorf("%w: the earlier checkpoint at size %d has the root %x, but the log at %s has the root %x", ErrNotPrefix, earlier.Size, earlier.Root, c.Location, root)
		}
		return nil
	}
	keys := make([]*proofs.Verifier, len(known))
	for i, key := range known {
		keys[i] = key.WithoutBounds().WithCondition(accept)
	}
	return keys, nil
}
