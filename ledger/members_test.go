package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/members"
	"colophon/ledger/record/rules"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/memory"
)

// Each ledger has its own member secret. The ledger's first event commits to it.
func TestMemberSecretIsKept(t *testing.T) {
	database := memory.New()
	empty := func(name string) storage.Store {
		s, err := database.CreateLedger(t.Context(), storage.LedgerInfo{Name: name, Origin: signer(t).Origin(), Created: time.Unix(0, 0).UTC()})
		require.NoError(t, err)
		return s
	}
	s := empty("a")
	l := open(t, s, config(t))
	secret := l.PayloadMemberSecret()
	require.NotNil(t, secret)
	require.NotEqual(t, open(t, empty("b"), config(t)).PayloadMemberSecret().Bytes(), secret.Bytes(), "each ledger has its own secret")
	first, err := s.Entry(t.Context(), 0)
	require.NoError(t, err)
	require.Contains(t, string(first), `"member_secret_hash":"`+string(rules.AppendHex(nil, secret.Commitment()))+`"`)
	require.NotContains(t, string(first), string(secret.Bytes()))
	require.NoError(t, l.Close())

	l = open(t, s, config(t))
	require.Equal(t, secret.Bytes(), l.PayloadMemberSecret().Bytes())
	r, err := record.DefaultLimits().WithPayloadMemberSecret(l.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, []byte(`{"payload":{"a":1},"model":"m"}`))
	require.NoError(t, err)
	require.Contains(t, string(post(t, l, r, "").Entry), `"payload_members":{"/a":"`)
	require.NoError(t, l.Close())

	report, err := audit.WalkLog(t.Context(), storeaudit.NewSource(s), audit.Options{Verifiers: []*proofs.Verifier{signer(t).Verifier()}})
	require.NoError(t, err)
	require.Nil(t, report.Damage)
}

// If the creation of a ledger is interrupted after its secret is stored but before the first event
// is committed, the secret is kept.
func TestMemberSecretOfAnInterruptedCreation(t *testing.T) {
	s := store(t, memory.New())
	secret := members.NewSecret()
	require.NoError(t, s.SetSetting(t.Context(), "member_secret", secret.Bytes()))
	require.Equal(t, secret.Bytes(), open(t, s, config(t)).PayloadMemberSecret().Bytes())
}

// A ledger cannot be opened if its secret is missing or is not the one that its first event commits
// to. An audit reports both cases.
func TestWrongMemberSecret(t *testing.T) {
	for name, c := range map[string]struct {
		stored []byte
		says   string
	}{
		"another":   {members.NewSecret().Bytes(), "does not match the commitment in the first event"},
		"too short": {[]byte("short"), "has 5 bytes, but must have 32"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t, memory.New())
			require.NoError(t, open(t, s, config(t)).Close())
			require.NoError(t, s.SetSetting(t.Context(), "member_secret", c.stored))
			_, err := ledger.Open(t.Context(), s, config(t))
			require.ErrorIs(t, err, ledger.ErrDamaged)
			require.ErrorContains(t, err, c.says)
			report, err := audit.WalkLog(t.Context(), storeaudit.NewSource(s), audit.Options{Verifiers: []*proofs.Verifier{signer(t).Verifier()}})
			require.NoError(t, err)
			require.ErrorContains(t, report.Damage, `content: "member_secret", at entry 0: altered`)
		})
	}
	t.Run("missing", func(t *testing.T) {
		s := store(t, memory.New())
		require.NoError(t, open(t, s, config(t)).Close())
		_, err := ledger.Open(t.Context(), withoutSettings{s}, config(t))
		require.ErrorIs(t, err, ledger.ErrDamaged)
		require.ErrorContains(t, err, "is missing")
		report, err := audit.WalkLog(t.Context(), storeaudit.NewSource(withoutSettings{s}), audit.Options{Verifiers: []*proofs.Verifier{signer(t).Verifier()}})
		require.NoError(t, err)
		require.ErrorContains(t, report.Damage, `content: "member_secret", at entry 0: missing`)
	})
}

// withoutSettings is a store that has lost its settings.
type withoutSettings struct{ storage.Store }

func (withoutSettings) Setting(context.Context, string) ([]byte, error) {
	return nil, storage.ErrNotFound
}

// A ledger created by an earlier version has no secret. It accepts records, but their events have
// no payload members.
func TestLedgersOfEarlierVersionsHaveNoMembers(t *testing.T) {
	s := store(t, memory.New())
	signer := signer(t)
	body := record.AppendLedgerCreated(nil, record.EventContext{Actor: "anonymous", Ledger: ledger.DefaultName}, signer.Origin(), signer.Verifier().String(), nil)
	at := time.Unix(1, 0)
	body = record.AppendBodySuffix(body, 0, at)
	entry := proofs.AppendEntry(nil, proofs.Hash{}, body)
	tree, err := proofs.OpenTree(0, nil, nil)
	require.NoError(t, err)
	tree.Append(proofs.LeafHash(entry))
	b := storage.Batch{Entries: [][]byte{entry}, Head: storage.Head{Size: 1, Tip: proofs.EventHash(proofs.Hash{}, body), TimeMicros: at.UnixMicro()}}
	b.Head.Checkpoint, err = signer.Sign(proofs.Checkpoint{Origin: signer.Origin(), Size: 1, Root: tree.Root()})
	require.NoError(t, err)
	for _, d := range tree.TakeDirtyTiles() {
		b.Tiles = append(b.Tiles, storage.Tile{Level: d.Level, Index: d.Index, Hashes: d.Hashes})
	}
	require.NoError(t, s.Commit(t.Context(), storage.Head{}, b))

	for range 2 { // before and after a restart
		l := open(t, s, config(t))
		require.Nil(t, l.PayloadMemberSecret())
		r, err := record.DefaultLimits().WithPayloadMemberSecret(l.PayloadMemberSecret()).ParseRecord(record.KindIPCRecord, []byte(`{"payload":{"a":1},"model":"m"}`))
		require.NoError(t, err)
		require.NotContains(t, string(post(t, l, r, "").Entry), "payload_members")
		require.NoError(t, l.Close())
	}
	report, err := audit.WalkLog(t.Context(), storeaudit.NewSource(s), audit.Options{Verifiers: []*proofs.Verifier{signer.Verifier()}})
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.EqualValues(t, 3, report.Size)
}
