package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/storage"
)

// checked creates a ledger that has every kind of row. It returns the database, a tamperer for the ledger,
// and the summary that a walk over the ledger's log would produce. Event 2 redacts event 0, and event 1
// needs content that was posted with event 0.
func checked(t *testing.T) (db *Database, x *tamperer, log storage.LogSummary) {
	db = openAt(t, emptyURL(t))
	ctx := t.Context()
	store, err := db.CreateLedger(ctx, storage.LedgerInfo{Name: "default"})
	require.NoError(t, err)
	b := batch(storage.Head{}, 2)
	require.NoError(t, store.Commit(ctx, storage.Head{}, b))
	last := batch(b.Head, 1)
	last.Redactions = []storage.Redaction{{Seq: 0, RedactingSeq: 2, Digests: []storage.Hash{digestOf(0), digestOf(1 << 60)}}}
	require.NoError(t, store.Commit(ctx, b.Head, last))
	require.NoError(t, store.SetSetting(ctx, "log", []byte("public")))
	key := func(n uint64) *storage.Hash { h := digestOf(n); return &h }
	events := []storage.EventSummary{
		{ContentDigests: []storage.Hash{digestOf(0), digestOf(1 << 60)}, IdempotencyKey: key(0)},
		{ContentDigests: []storage.Hash{digestOf(1 << 60)}},
		{ContentDigests: []storage.Hash{digestOf(2), digestOf(1 << 60)}, IdempotencyKey: key(2)},
	}
	log = storage.LogSummary{
		ContentReferenceCount: 3, ClaimCount: 2,
		ReadEvent: func(_ context.Context, seq uint64) (storage.EventSummary, error) { return events[seq], nil },
		CheckSetting: func(name string, value []byte) error {
			if name != "log" || !slices.Contains([]string{"public", "private"}, string(value)) {
				return errors.New("unknown")
			}
			return nil
		},
	}
	return db, &tamperer{t: t, conn: connect(t, db.url()), ledger: store.(*ledger).number}, log
}

func TestCheckKeys(t *testing.T) {
	db, x, log := checked(t)
	ctx := t.Context()
	find := func() []*storage.StrayKeyError {
		t.Helper()
		var read uint64
		strays, err := db.CheckKeys(ctx, map[string]storage.LogSummary{"default": log}, func(keys uint64) { read = keys })
		require.NoError(t, err)
		require.Positive(t, read)
		return strays
	}
	require.Empty(t, find())

	other := digestOf(77)
	for name, c := range map[string]struct {
		statement string
		arguments []any
		want      storage.StrayKeyError
	}{
		"entry": {
			`INSERT INTO colophon_entries VALUES ($1, 3, $2)`, []any{[]byte("x")},
			storage.StrayKeyError{Kind: storage.StrayEntry, Seq: 3, Message: "the entry is stored, but it is beyond the head (size 3)"},
		},
		"entry before all": {
			`INSERT INTO colophon_entries VALUES ($1, -1, $2)`, []any{[]byte("x")},
			storage.StrayKeyError{Kind: storage.StrayEntry, Seq: math.MaxUint64, Message: "the entry is stored, but it is beyond the head (size 3)"},
		},
		"tile": {
			`INSERT INTO colophon_tiles VALUES ($1, 1, 0, 1, $2)`, []any{other[:]},
			storage.StrayKeyError{Kind: storage.StrayTile, Seq: 3, Message: "tile 1/0 is stored with 1 hashes"},
		},
		"longer tile": {
			`INSERT INTO colophon_tiles VALUES ($1, 0, 0, 4, $2)`, []any{other[:]},
			storage.StrayKeyError{Kind: storage.StrayTile, Seq: 3, Message: "tile 0/0 is stored with 4 hashes"},
		},
		"content": {
			`INSERT INTO colophon_contents VALUES ($1, $2, 1, $3)`, []any{other[:], []byte("x")},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 1, Message: "but the event does not name that content"},
		},
		"content of no record": {
			`INSERT INTO colophon_contents VALUES ($1, $2, NULL, $3)`, []any{other[:], []byte("x")},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 3, Message: "is stored, but no record needs it"},
		},
		"content of a later record": {
			`INSERT INTO colophon_contents VALUES ($1, $2, 9, $3)`, []any{other[:], []byte("x")},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 9, Message: "is kept for the event, but the event is beyond the head (size 3)"},
		},
		"erased content": {
			`INSERT INTO colophon_contents VALUES ($1, $2, 0, $3)`, []any{hashBytes(0), []byte("x")},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 0, Message: "but event 2 has redacted the event"},
		},
		"reference": {
			`INSERT INTO colophon_references VALUES ($1, $2, 1)`, []any{other[:]},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 1, Message: "is stored, but the content is not"},
		},
		"reference of a redacted record": {
			`INSERT INTO colophon_references VALUES ($1, $2, 0)`, []any{hashBytes(1 << 60)},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 0, Message: "but event 2 has redacted the event"},
		},
		"second reference": {
			`INSERT INTO colophon_references VALUES ($1, $2, 2)`, []any{hashBytes(2)},
			storage.StrayKeyError{Kind: storage.StrayContent, Seq: 2, Message: "the event has two references to content"},
		},
		"claim": {
			`INSERT INTO colophon_claims VALUES ($1, $2, $2, 1)`, []any{other[:]},
			storage.StrayKeyError{Kind: storage.StrayClaim, Seq: 1, Message: "a new record with this key would not be recorded"},
		},
		"claim of a later record": {
			`INSERT INTO colophon_claims VALUES ($1, $2, $2, 9)`, []any{other[:]},
			storage.StrayKeyError{Kind: storage.StrayClaim, Seq: 9, Message: "a new record with this key would not be recorded"},
		},
		"setting": {
			`INSERT INTO colophon_settings VALUES ($1, 'other', $2)`, []any{[]byte("x")},
			storage.StrayKeyError{Kind: storage.StrayOther, Seq: 3, Message: `setting "other": unknown`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, x, log := checked(t)
			require.NoError(t, x.exec(c.statement, c.arguments...))
			strays, err := db.CheckKeys(ctx, map[string]storage.LogSummary{"default": log}, nil)
			require.NoError(t, err)
			require.Len(t, strays, 1)
			require.Equal(t, "default", strays[0].Ledger)
			require.Equal(t, c.want.Kind, strays[0].Kind)
			require.Equal(t, c.want.Seq, strays[0].Seq)
			require.Contains(t, strays[0].Message, c.want.Message)
		})
	}

	require.NoError(t, x.exec(`INSERT INTO colophon_claims VALUES ($1 + 1, $2, $2, 1)`, other[:]))
	strays := find()
	require.Len(t, strays, 1)
	require.Empty(t, strays[0].Ledger)
	require.Equal(t, storage.StrayOther, strays[0].Kind)
	require.Contains(t, strays[0].Message, "the table colophon_claims has a row for ledger number 2, which does not exist")
}

func hashBytes(n uint64) []byte {
	h := digestOf(n)
	return h[:]
}
