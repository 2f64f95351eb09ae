package ledger_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/record"
	"colophon/ledger/record/seqs"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
	"colophon/storage/memory"
)

// walk audits the stored log, and checks that the ledger publishes the size and root that the audit
// found. It is the oracle for these tests.
func walk(t testing.TB, l *ledger.Ledger) error {
	t.Helper()
	report, err := examine(l.Reader(), signer(t).Verifier())
	if err != nil {
		return err
	}
	if report.Damage != nil {
		return report.Damage
	}
	if head := l.Head(); report.Size != head.Size || report.Checkpoint.Root != head.Root {
		return fmt.Errorf("the ledger publishes size %d and root %x, the store has %d and %x",
			head.Size, head.Root, report.Size, report.Checkpoint.Root)
	}
	return nil
}

func examine(log storage.Reader, verifier *proofs.Verifier) (*audit.Report, error) {
	return audit.WalkLog(context.Background(), storeaudit.NewSource(log),
		audit.Options{Verifiers: []*proofs.Verifier{verifier}, Ledger: ledger.DefaultName})
}

// An audit reports each direct change to the stored data, with the kind of damage and the seq of
// the damaged event.
func TestDamageIsReported(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   audit.DamageKind
		seq    uint64
		change func(t *testing.T, x *memory.Tamperer, s storage.Store)
	}{
		{"changed entry", audit.DamageKindEntry, 100, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			b := entry(t, s, 100)
			b[len(b)/2] ^= 1
			require.NoError(t, x.SetEntry(100, b))
		}},
		{"changed tile", audit.DamageKindTile, 7, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			b := tile(t, s, 0, 0)
			b[32*7] ^= 1
			require.NoError(t, x.SetTile(0, 0, b))
		}},
		{"changed upper tile", audit.DamageKindTile, 0, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			b := tile(t, s, 1, 0)
			b[0] ^= 1
			require.NoError(t, x.SetTile(1, 0, b))
		}},
		{"swapped pair", audit.DamageKindEntry, 50, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			a, b := entry(t, s, 50), entry(t, s, 51)
			require.NoError(t, x.SetEntry(50, b))
			require.NoError(t, x.SetEntry(51, a))
		}},
		{"truncated log", audit.DamageKindTruncation, 299, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			require.NoError(t, x.DeleteEntry(300))
			require.NoError(t, x.DeleteEntry(299))
		}},
		{"older checkpoint", audit.DamageKindCheckpoint, 301, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			head, err := s.Head(t.Context())
			require.NoError(t, err)
			head.Checkpoint = checkpointAt(t, s, 200)
			require.NoError(t, x.SetHead(head))
		}},
		{"other key's checkpoint", audit.DamageKindSignature, 301, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			head, err := s.Head(t.Context())
			require.NoError(t, err)
			other, err := proofs.NewKey([32]byte{9}).Signer("test.invalid/default")
			require.NoError(t, err)
			head.Checkpoint, err = other.Sign(proofs.Checkpoint{Origin: "test.invalid/default", Size: 301})
			require.NoError(t, err)
			require.NoError(t, x.SetHead(head))
		}},
		{"changed content", audit.DamageKindContent, 30, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			require.NoError(t, x.SetContent(contentOf(t, s, 30), []byte("forged")))
		}},
		{"key of another record", audit.DamageKindKey, 30, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			k, err := s.KeyClaim(t.Context(), record.RunIdempotencyKeyDigest(record.KindIPCRecord, "run/29"))
			require.NoError(t, err)
			require.EqualValues(t, 30, k.Seq)
			k.RecordDigest[0] ^= 1
			require.NoError(t, x.SetClaim(k))
		}},
		{"missing content", audit.DamageKindContent, 30, func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			require.NoError(t, x.DeleteContent(contentOf(t, s, 30)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			database := memory.New()
			s := store(t, database)
			l := open(t, s, config(t))
			for i := range 300 {
				post(t, l, ipc(t, fmt.Sprint("run/", i), fmt.Sprint("output ", i)), "")
			}
			require.NoError(t, l.Close())
			report, err := examine(s, signer(t).Verifier())
			require.NoError(t, err)
			require.Nil(t, report.Damage, "the untouched control passes")

			x, err := database.Tamperer(ledger.DefaultName)
			require.NoError(t, err)
			c.change(t, x, s)
			report, err = examine(s, signer(t).Verifier())
			require.NoError(t, err)
			require.NotNil(t, report.Damage)
			require.Equal(t, c.kind, report.Damage.Kind, "%v", report.Damage)
			require.Equal(t, c.seq, report.Damage.Seq, "%v", report.Damage)
		})
	}
}

// Open returns ErrDamaged if the last entry or tile is missing or altered, or if either does not
// match the head.
func TestOpenRefusesADamagedEdge(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, x *memory.Tamperer, s storage.Store){
		"last entry": func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			require.NoError(t, x.SetEntry(10, append(entry(t, s, 10), ' ')))
		},
		"no last entry": func(t *testing.T, x *memory.Tamperer, s storage.Store) { require.NoError(t, x.DeleteEntry(10)) },
		"edge tile": func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			b := tile(t, s, 0, 0)
			b[0] ^= 1
			require.NoError(t, x.SetTile(0, 0, b))
		},
		"no edge tile": func(t *testing.T, x *memory.Tamperer, s storage.Store) { require.NoError(t, x.DeleteTile(0, 0)) },
		"tip": func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			head, err := s.Head(t.Context())
			require.NoError(t, err)
			head.Tip[0] ^= 1
			require.NoError(t, x.SetHead(head))
		},
		"older head": func(t *testing.T, x *memory.Tamperer, s storage.Store) {
			head, err := s.Head(t.Context())
			require.NoError(t, err)
			head.Size--
			require.NoError(t, x.SetHead(head))
		},
	} {
		t.Run(name, func(t *testing.T) {
			database := memory.New()
			s := store(t, database)
			l := open(t, s, config(t))
			for i := range 10 {
				post(t, l, ipc(t, "", fmt.Sprint(i)), "")
			}
			require.NoError(t, l.Close())
			x, err := database.Tamperer(ledger.DefaultName)
			require.NoError(t, err)
			change(t, x, s)
			_, err = ledger.Open(t.Context(), s, config(t))
			require.ErrorIs(t, err, ledger.ErrDamaged)
		})
	}
}

// An audit reports a record that has lost its reference to stored content although no event
// redacted it. It also reports a stored redaction if the redacting event or the redacted record
// lies beyond the head. A false redaction does not prevent a later event from redacting the record.
func TestRedactionsWithoutAnEventAreReported(t *testing.T) {
	newTamperable := func(t *testing.T) (*ledger.Ledger, *memory.Tamperer) {
		database := memory.New()
		l := open(t, store(t, database), config(t))
		for range 7 {
			post(t, l, ipc(t, "", "shared"), "")
		}
		require.NoError(t, walk(t, l))
		x, err := database.Tamperer(ledger.DefaultName)
		require.NoError(t, err)
		return l, x
	}
	t.Run("missing reference", func(t *testing.T) {
		l, x := newTamperable(t)
		require.NoError(t, x.DeleteReference(contentOf(t, l.Reader(), 3), 3))
		require.ErrorContains(t, walk(t, l), `content: "output", at entry 3: the content is stored, but the record has no stored reference to it`)
	})
	t.Run("by an event beyond the head", func(t *testing.T) {
		l, x := newTamperable(t)
		require.NoError(t, x.SetRedaction(1, 900))
		require.ErrorContains(t, walk(t, l), "redaction: at entry 1: storage says that event 900 redacts this record, but the head has only 8 events")
		var of seqs.Set
		of.Add(1)
		require.NoError(t, l.Redact(t.Context(), &of, "r", ledger.AnonymousActor, func(ledger.Ack, int) error { return nil }))
		by, err := l.Reader().RedactingSeq(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, uint64(8), by)
		require.NoError(t, walk(t, l))
	})
	t.Run("of a record beyond the head", func(t *testing.T) {
		l, x := newTamperable(t)
		require.NoError(t, x.SetRedaction(8, 5))
		require.ErrorContains(t, walk(t, l), "redaction: at entry 8: storage says that event 5 redacts this record, but that event does not come after the record")
	})
}

func entry(t *testing.T, s storage.Reader, seq uint64) []byte {
	b, err := s.Entry(t.Context(), seq)
	require.NoError(t, err)
	return b
}

func tile(t *testing.T, s storage.Store, level uint8, index uint64) []byte {
	b, err := s.Tile(t.Context(), level, index)
	require.NoError(t, err)
	return b
}

// checkpointAt returns the checkpoint that the ledger signed at an earlier size.
func checkpointAt(t *testing.T, s storage.Store, size uint64) []byte {
	l := open(t, s, config(t))
	b, err := l.Checkpoint(t.Context(), l.Head(), size)
	require.NoError(t, err)
	return b
}

// contentOf returns the digest of an event's output.
func contentOf(t *testing.T, s storage.Reader, seq uint64) storage.Hash {
	t.Helper()
	event := entry(t, s, seq)[proofs.HashSize:]
	var body struct {
		Record struct {
			Content map[string]struct{ SHA256 string }
		}
	}
	require.NoError(t, unmarshal(event, &body))
	h, err := proofs.ParseHash(body.Record.Content["output"].SHA256)
	require.NoError(t, err)
	return h
}
