package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"colophon/internal/cli"
	"colophon/proofs"
)

var (
	// ErrReplacedKey means that a checkpoint is signed only with a key that has been replaced, and
	// that no later tree was given to show that the log contains the checkpoint's tree.
	ErrReplacedKey = errors.New("signed only with a key that has been replaced")
	// ErrNotPrefix means that the given later tree does not extend the checkpoint's tree.
	ErrNotPrefix = errors.New("the checkpoint's tree is not a prefix of the later tree")
)

// laterTree is a response body of GET /proofs/consistency: a checkpoint, and a proof that the
// checkpoint's tree extends an earlier tree.
type laterTree struct {
	AsOf       uint64   `json:"as_of"`
	Hashes     []string `json:"hashes"`     // hashes of the consistency proof, in hexadecimal
	Checkpoint string   `json:"checkpoint"` // signed note
}

// verifyingKeys returns the keys for verifying a file. A replaced key accepts a checkpoint only if
// a later tree, given with --copy or --later, extends the checkpoint's tree.
func verifyingKeys(c *cli.Console, o Options) ([]*proofs.Verifier, error) {
	trusted, err := c.ReadTrustedKeys(o.Key)
	if err != nil {
		return nil, err
	}
	if o.OpenCopy != nil {
		found, err := o.OpenCopy(trusted.Keys)
		if err != nil {
			return nil, err
		}
		keys, err := found.verifiers(trusted.Keys)
		if errors.Is(err, proofs.ErrWrongKey) { // other errors, such as a bad signature, are about the copy and not about the file
			err = ReportRejection(c, o, err)
		}
		return keys, err
	}
	accept := func(proofs.Checkpoint) error { return ErrReplacedKey }
	if o.LaterCheckpointFile != "" {
		if accept, err = readLater(c, o.LaterCheckpointFile, trusted.Keys); err != nil {
			return nil, err
		}
	}
	keys := slices.Clone(trusted.Keys)
	for _, key := range trusted.ReplacedKeys {
		keys = append(keys, key.WithoutBounds().WithCondition(accept))
	}
	if o.LaterCheckpointFile != "" && len(trusted.ReplacedKeys) == 0 {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--later requires a --key file with all keys of the log (the output of \"colophon keys list NAME --key KEY --json\"), but %q has no replaced key", o.Key)
	}
	return keys, nil
}

// readLater reads the file given with --later. The returned function checks that a checkpoint's
// tree is a prefix of the tree in that file. If it is not, it returns an error that wraps
// ErrNotPrefix.
func readLater(c *cli.Console, name string, keys []*proofs.Verifier) (func(proofs.Checkpoint) error, error) {
	text, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var later laterTree
	if err := json.Unmarshal(text, &later); err != nil || later.Checkpoint == "" {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--later: %s: the file has no checkpoint; it must be a response to GET …/proofs/consistency?first=TREE_SIZE", name)
	}
	signed, err := proofs.OpenCheckpoint([]byte(later.Checkpoint), keys...)
	if err != nil {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--later: %s: %w", name, err)
	}
	path := make([]proofs.Hash, len(later.Hashes))
	for i, digits := range later.Hashes {
		if path[i], err = proofs.ParseHash(digits); err != nil {
			return nil, cli.ExitErrorf(cli.ExitUsage, "--later: %s: %w", name, err)
		}
	}
	return func(earlier proofs.Checkpoint) error {
		if earlier.Origin != signed.Origin {
			return fmt.Errorf("%w: the earlier checkpoint has the origin %.100q, but %s has %.100q", ErrNotPrefix, earlier.Origin, name, signed.Origin)
		}
		if err := proofs.VerifyConsistency(earlier.Size, signed.Size, earlier.Root, signed.Root, path); err != nil {
			return fmt.Errorf("%[1]w: %[2]s covers a tree of %[3]d entries, and the receipt or checkpoint covers %[4]d: %[6]w; fetch the file again with first=%[5]d", ErrNotPrefix, name, signed.Size, earlier.Size, earlier.Size, err)
		}
		return nil
	}, nil
}

// afterRotation adds advice to err if a likely cause is that the user's key has been replaced.
func afterRotation(err error) error {
	switch {
	case errors.Is(err, ErrReplacedKey):
		return fmt.Errorf(`%w
Fetch the receipt again: the new receipt is signed with the current key. Alternatively, save the response to GET …/proofs/consistency?first=TREE_SIZE, with the tree_size of this receipt, and pass the file with --later`, err)
	case errors.Is(err, proofs.ErrWrongKey):
		return fmt.Errorf(`%w
If the keys of this log were rotated, fetch them: "colophon keys list NAME --key KEY --json > keys.json" checks that the later keys follow from KEY, which you trust; then verify with --key keys.json`, err)
	}
	return err
}
