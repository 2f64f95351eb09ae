package proofs

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// VerifyBackup accepts only backup notes. OpenCheckpoint and verifyHandover refuse backup notes.
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
	handover, err := SignHandover(one, next)
	require.NoError(t, err)
	_, err = VerifyBackup(handover, digest, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
}

func TestExportManifests(t *testing.T) {
	one, err := NewKey([32]byte{1}).Signer("log.example/one")
	require.NoError(t, err)
	m := &ExportManifest{
		Checkpoint: Checkpoint{Origin: one.Origin(), Size: 7, Root: Hash{9}},
		Question:   "/records?kind=ipc_record", RowCount: 2, RowsRoot: RootOfLeaves([]Hash{{1}, {2}}), DigestWithoutRows: sha256.Sum256([]byte("{}")),
	}
	signed, err := SignExport(m, one)
	require.NoError(t, err)

	opened, err := OpenExport(signed, one.Verifier())
	require.NoError(t, err)
	require.Equal(t, m, opened)
	require.Equal(t, m.Digest(), opened.Digest())
	require.NoError(t, opened.VerifyRows([]Hash{{1}, {2}}, []byte("{}")))
	require.ErrorIs(t, opened.VerifyRows([]Hash{{2}, {1}}, []byte("{}")), ErrInclusion)
	require.ErrorIs(t, opened.VerifyRows([]Hash{{1}}, []byte("{}")), ErrInclusion)
	require.ErrorIs(t, opened.VerifyRows([]Hash{{1}, {2}}, []byte(`{"as_of":8}`)), ErrInclusion)

	for i := range signed { // OpenExport detects a change to any byte
		changed := []byte(string(signed))
		changed[i] ^= 1
		_, err := OpenExport(changed, one.Verifier())
		require.Error(t, err, "byte %d", i)
	}
	until := one.Verifier().WithRetirement(6)
	_, err = OpenExport(signed, until)
	require.ErrorIs(t, err, ErrRetiredKey)
	stranger, err := NewKey([32]byte{3}).Signer("log.example/one")
	require.NoError(t, err)
	_, err = OpenExport(signed, stranger.Verifier())
	require.ErrorIs(t, err, ErrWrongKey)

	two, err := NewKey([32]byte{2}).Signer("log.example/two")
	require.NoError(t, err)
	_, err = SignExport(m, two)
	require.ErrorIs(t, err, ErrWrongOrigin)
	for _, question := range []string{"", "/records\n9"} {
		wrong := *m
		wrong.Question = question
		_, err = SignExport(&wrong, one)
		require.ErrorIs(t, err, ErrMalformed)
	}
	_, err = OpenCheckpoint(signed, one.Verifier())
	require.Error(t, err)
	_, err = VerifyBackup(signed, Hash{}, one.Verifier())
	require.ErrorIs(t, err, ErrSignature)
	checkpoint, err := one.Sign(m.Checkpoint)
	require.NoError(t, err)
	_, err = OpenExport(checkpoint, one.Verifier())
	require.ErrorIs(t, err, ErrMalformed)
}

// RootOfLeaves returns the same root as a log's tree with the same leaves.
func TestRowsRoot(t *testing.T) {
	require.Equal(t, EmptyRoot(), RootOfLeaves(nil))
	tree, err := OpenTree(0, nil, nil)
	require.NoError(t, err)
	var leaves []Hash
	for i := range 600 {
		leaf := LeafHash([]byte{byte(i), byte(i >> 8)})
		tree.Append(leaf)
		leaves = append(leaves, leaf)
		require.Equal(t, tree.Root(), RootOfLeaves(leaves))
	}
}
