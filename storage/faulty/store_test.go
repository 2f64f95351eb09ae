package faulty_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
	"colophon/storage/faulty"
	"colophon/storage/memory"
	"colophon/storage/storagetest"
)

// If no call fails, a wrapped database behaves like the database that it wraps.
func TestWithoutFaults(t *testing.T) {
	storagetest.Run(t, func(*testing.T) storage.Database {
		return faulty.NewDatabase(memory.New(), faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{"none"}}))
	})
}

// callAll makes every call in the storage contract and returns the errors of the calls that failed,
// keyed by the name of the call.
func callAll(ctx context.Context, d storage.Database) (failed map[string]error) {
	failed = make(map[string]error)
	note := func(call string, err error) {
		if err != nil {
			failed[call] = err
		}
	}
	_, err := d.Ledgers(ctx)
	note("Ledgers", err)
	if _, err = d.CreateLedger(ctx, storage.LedgerInfo{Name: "default"}); err != nil {
		note("Create", err)
	}
	s, err := d.Ledger(ctx, "default")
	if err != nil {
		note("Ledger", err)
		return failed
	}
	b := storage.Batch{Head: storage.Head{Size: 2}, Entries: [][]byte{{0}, {1}}, Claims: []storage.Claim{{KeyDigest: storage.Hash{1}}},
		Contents: []storage.Content{{Digest: storage.Hash{1}, Bytes: []byte("text")}, {Digest: storage.Hash{1}, Seq: 1}},
		Tiles:    []storage.Tile{{Hashes: make([]byte, 64)}}}
	note("CheckWritable", s.CheckWritable(ctx))
	note("Commit", s.Commit(ctx, storage.Head{}, b))
	note("SetSetting", s.SetSetting(ctx, "name", []byte("value")))
	_, err = s.Info(ctx)
	note("Info", err)
	_, err = s.Head(ctx)
	note("Head", err)
	_, err = s.Tile(ctx, 0, 0)
	note("Tile", err)
	_, err = s.Entry(ctx, 1)
	note("Entry", err)
	_, err = s.Content(ctx, storage.Hash{1})
	note("Content", err)
	_, err = s.HasReference(ctx, storage.Hash{1}, 0)
	note("HasReference", err)
	_, err = s.KeyClaim(ctx, storage.Hash{1})
	note("Key", err)
	_, err = s.KeyClaims(ctx, []storage.Hash{{1}})
	note("Keys", err)
	_, err = s.Setting(ctx, "name")
	note("Setting", err)
	for _, err := range s.Entries(ctx, 0) {
		note("Entries", err)
	}
	for _, err := range s.References(ctx, storage.Hash{1}) {
		note("References", err)
	}
	for _, err := range s.Redactions(ctx) {
		note("Redactions", err)
	}
	if _, err = s.RedactingSeq(ctx, 0); !errors.Is(err, storage.ErrNotFound) {
		note("Redaction", err)
	}
	note("Archive", s.(storage.Archiver).Archive(ctx, storage.ArchivedRange{}, nil))
	note("Freeze", s.Freeze(ctx))
	return failed
}

// Each call can be made to fail. Other calls then succeed, unless they depend on the failed one.
func TestEveryCallFails(t *testing.T) {
	for _, call := range faulty.StoreCallNames() {
		faults := faulty.New(faulty.Plan{Mode: faulty.ModeFail, Calls: []string{call}})
		failed := callAll(t.Context(), faulty.NewDatabase(memory.New(), faults))
		require.ErrorIs(t, failed[call], faulty.ErrInjected, call)
		require.Equal(t, map[string]int{call: 1}, faults.FaultCounts())
		switch call {
		case "Create", "Commit", "SetSetting": // later calls depend on these calls
		default:
			require.Len(t, failed, 1, call)
		}
	}
}

func TestModesOfAStore(t *testing.T) {
	ctx := t.Context()
	head := storage.Head{Size: 2}
	for _, c := range []struct {
		mode  faulty.Mode
		err   error
		there bool // whether the commit has been stored
	}{
		{faulty.ModeFail, faulty.ErrInjected, false}, {faulty.ModeFailAfterSuccess, faulty.ErrInjected, true}, {faulty.ModeNoSpace, storage.ErrNoSpace, false},
		{faulty.ModeFlipBit, faulty.ErrInjected, false}, {faulty.ModeSlow, nil, true},
	} {
		under := memory.New()
		d := faulty.NewDatabase(under, faulty.New(faulty.Plan{Mode: c.mode, Calls: []string{"Commit"}, SkipCount: 1, FailCount: 1}))
		s, err := d.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
		require.NoError(t, err)
		first := storage.Head{Size: 1}
		require.NoError(t, s.Commit(ctx, storage.Head{}, storage.Batch{Head: first, Entries: [][]byte{{0}}}))
		err = s.Commit(ctx, first, storage.Batch{Head: head, Entries: [][]byte{{1}}})
		require.ErrorIs(t, err, c.err)
		got, err := s.Head(ctx)
		require.NoError(t, err)
		require.Equal(t, c.there, got.Size == 2, "%s", c.mode)
	}
}

// In mode ModeShortWrite, a walk fails after yielding its first item.
func TestShortWalks(t *testing.T) {
	d := faulty.NewDatabase(memory.New(), faulty.New(faulty.Plan{Mode: faulty.ModeShortWrite, Calls: []string{"Entries"}}))
	s, err := d.CreateLedger(t.Context(), storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	require.NoError(t, s.Commit(t.Context(), storage.Head{}, storage.Batch{Head: storage.Head{Size: 2}, Entries: [][]byte{{0}, {1}}}))
	var steps []error
	for _, err := range s.Entries(t.Context(), 0) {
		steps = append(steps, err)
	}
	require.Len(t, steps, 2)
	require.NoError(t, steps[0])
	require.ErrorIs(t, steps[1], faulty.ErrInjected)
}
