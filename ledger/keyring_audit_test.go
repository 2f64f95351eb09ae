package ledger_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger"
	"colophon/ledger/storeaudit"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage/memory"
)

// signedBy is a log that returns the given checkpoint instead of its own.
type signedBy struct {
	audit.Source
	checkpoint []byte
}

func (s signedBy) Head(ctx context.Context) (audit.Head, error) {
	head, err := s.Source.Head(ctx)
	head.Checkpoint = s.checkpoint
	return head, err
}

// An audit follows the key changes in the log. It does not accept a signature by a key after the
// log has retired it, even if Options.Verifiers contains that key.
func TestAuditFollowsTheKeys(t *testing.T) {
	l := memoryLedger(t)
	first := signer(t)
	var signers []*proofs.Signer
	for i := range byte(2) {
		next, err := proofs.NewKey([32]byte{100 + i}).Signer(l.Info().Origin)
		require.NoError(t, err)
		post(t, l, ipc(t, "", "x"), "")
		_, err = l.RotateKey(next, "operator")
		require.NoError(t, err)
		post(t, l, ipc(t, "", "x"), "")
		_, err = l.RetireKey("operator")
		require.NoError(t, err)
		signers = append(signers, next)
	}
	check := func(checkpoint []byte, keys ...*proofs.Verifier) *audit.Damage {
		report, err := audit.WalkLog(t.Context(), signedBy{storeaudit.NewSource(l.Reader()), checkpoint}, audit.Options{Verifiers: keys})
		require.NoError(t, err)
		return report.Damage
	}
	head := l.Head()
	require.Nil(t, check(head.Checkpoint, l.KeyHistory().Verifiers()...))
	unbounded := []*proofs.Verifier{signers[1].Verifier(), signers[0].Verifier(), first.Verifier()}
	require.Nil(t, check(head.Checkpoint, unbounded...))
	for _, old := range []*proofs.Signer{first, signers[0]} {
		forged, err := old.Sign(proofs.Checkpoint{Origin: l.Info().Origin, Size: head.Size, Root: head.Root})
		require.NoError(t, err)
		damage := check(forged, unbounded...)
		require.NotNil(t, damage)
		require.Equal(t, audit.DamageKindSignature, damage.Kind)
		damage = check(forged, l.KeyHistory().Verifiers()...)
		require.NotNil(t, damage)
	}
	none, err := ledger.ReadKeyHistory(t.Context(), store(t, memory.New()))
	require.NoError(t, err)
	require.Nil(t, none, "a log without events has no keys")
}
