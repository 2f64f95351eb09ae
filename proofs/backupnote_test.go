package proofs

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// VerifyBackup accepts only backup notes. OpenCheckpoint and verifyHandover refuse them.
func TestBackupNotes(t *testing.T) {
	one, err := NewKey([32]byte{1}).Signer("log.example/one")
	require.NoError(t, err)
	two, err := NewKey([32]byte{2}).Signer("log.example/two")
	require.NoError(t, err)
	digest := Hash(sha256.Sum256([]byte("manifest")))
	signed, err := SignBackup(digest, one, two)
	require.NoError(t, err)

	by, err := VerifyBackup(signed, digest, two.Verifier(), one.Verifier())
	require.NoError(t, err)
	require.Len(t, by, 2)
	by, err = VerifyBackup(signed, digest, two.Verifier())
	require.NoError(t, err)
	require.Equal(t, []*Verifier{two.Verifier()}, by)

	stranger, err := NewKey([32]byte{3}).Signer("log.example/one")
	require.NoError(t, err)
	_, err = VerifyBackup(signed, digest, stranger.Verifier())
	require.ErrorIs(t, err, ErrWrongKey)
	_, err = VerifyBackup(signed, digest)
	require.ErrorIs(t, err, ErrWrongKey)
	_, err = VerifyBackup(signed, Hash{}, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
	changed := strings.Replace(string(signed), "v1\n", "v1\n0", 1)
	_, err = VerifyBackup([]byte(changed), digest, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
	_, err = VerifyBackup([]byte("garbage"), digest, one.Verifier())
	require.ErrorIs(t, err, ErrMalformed)

	_, err = OpenCheckpoint(signed, one.Verifier())
	require.Error(t, err)
	require.Error(t, verifyHandover(signed, one.Verifier(), two.Verifier()))
	checkpoint, err := one.Sign(Checkpoint{Origin: one.Origin(), Size: 1, Root: digest})
	require.NoError(t, err)
	_, err = VerifyBackup(checkpoint, digest, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
	next, err := NewKey([32]byte{4}).Signer(one.Origin())
	require.NoError(t, err)
	handover, err := NewHandover(one, next)
	require.NoError(t, err)
	_, err = VerifyBackup(handover, digest, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
}
