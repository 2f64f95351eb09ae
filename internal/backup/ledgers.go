package backup

import (
	"context"
	"fmt"
	"time"

	"colophon/ledger"
	"colophon/ledger/highwater"
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
