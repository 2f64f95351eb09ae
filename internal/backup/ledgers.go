package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"colophon/ledger"
	"colophon/ledger/highwater"
	"colophon/ledger/keystore"
	"colophon/proofs"
	"colophon/storage"
	"colophon/storage/pebble"
)

// Ledger describes a ledger at the time of a backup.
type Ledger struct {
	Name          string    `json:"name"`
	Origin        string    `json:"origin"`
	VerifierKey   string    `json:"verifier_key"`
	TreeSize      uint64    `json:"size"`       // number of events in the log
	LastEventTime time.Time `json:"time"`       // time of the last event
	Checkpoint    string    `json:"checkpoint"` // signed note

	signedBy []string              // verifier keys for the signatures on checkpoints; there are two during a rotation
	archived storage.ArchivedRange // which entries exist only in a published copy, and where that copy is
}

// InspectLedgers describes every ledger in a database. It verifies each ledger's head, tree, and
// checkpoint signature.
func InspectLedgers(ctx context.Context, database *pebble.Database) (list []Ledger, err error) {
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		state, err := inspectLedger(ctx, database, info)
		if err != nil {
			return nil, fmt.Errorf("inspecting ledger %q: %w", info.Name, err)
		}
		list = append(list, state)
	}
	return list, nil
}

func inspectLedger(ctx context.Context, database *pebble.Database, info storage.LedgerInfo) (Ledger, error) {
	state := Ledger{Name: info.Name, Origin: info.Origin}
	store, err := database.Ledger(ctx, info.Name)
	if err != nil {
		return state, err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return state, err
	}
	keys, err := ledger.ReadKeyHistory(ctx, store)
	if err != nil || keys == nil { // a ledger without events has no keys and has signed nothing
		return state, err
	}
	if err := highwater.Check(ctx, store, head.Checkpoint, keys.Verifiers()...); err != nil {
		return state, err
	}
	if state.archived, err = storage.ReadArchivedRange(ctx, store); err != nil {
		return state, err
	}
	state.TreeSize, state.LastEventTime, state.Checkpoint = head.Size, time.UnixMicro(head.TimeMicros).UTC(), string(head.Checkpoint)
	state.VerifierKey = keys.CurrentKey().String()
	state.signedBy = []string{state.VerifierKey}
	if previous := keys.OverlappingKey(); previous != nil {
		state.signedBy = append(state.signedBy, previous.String())
	}
	return state, nil
}

// errKeysChanged means that the signing keys in a backup do not fit its log. A backup copies the keys
// after the log, so they may have changed in between.
var errKeysChanged = errors.New("the keys changed during the backup; run it again")

// checkKeys returns an error if a ledger could not continue with its signing keys in the backup. It
// ignores a ledger whose key is not in the backup: an environment variable may hold it.
func (m *Manifest) checkKeys(store Store) error {
	files := keystore.KeyFiles{Dir: "keys"}
	for _, l := range m.Ledgers {
		var keys []string
		for _, path := range []string{files.Path(l.Name), files.StagedKeyPath(l.Name), files.NextKeyPath(l.Name), files.PreviousKeyPath(l.Name)} {
			key, err := m.readKey(store, filepath.ToSlash(path))
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		present := cmp.Or(keys[0], keys[1])
		missing := func(signer string) bool { return !slices.Contains(keys, signer) }
		if present == "" || len(l.signedBy) == 0 {
			continue
		}
		if !slices.Contains(l.signedBy, present) || slices.ContainsFunc(l.signedBy, missing) {
			return fmt.Errorf("ledger %q: %w. If the error persists, the folder keys lacks a key that signs this ledger; run backup without --with-keys", l.Name, errKeysChanged)
		}
	}
	return nil
}

// readKey returns the verifier key of a signing key in the backup, or "" if the backup has no file with
// that name.
func (m *Manifest) readKey(store Store, name string) (string, error) {
	i := slices.IndexFunc(m.Files, func(f StoredFile) bool { return f.Name == name })
	if i < 0 {
		return "", nil
	}
	in, err := store.OpenFile(m.Files[i])
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return "", err
	}
	signer, err := proofs.ParseSigner(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("parsing %s: %w", name, err)
	}
	return signer.Verifier().String(), nil
}
