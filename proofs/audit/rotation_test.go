package audit

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/ledger/record"
	"colophon/proofs"
)

// changeKey appends one step of a key rotation.
func (m *memory) changeKey(t testing.TB, step proofs.KeyStep, previous, next *proofs.Signer) {
	t.Helper()
	var handover []byte
	if step == proofs.KeyStepIntroduced {
		var err error
		handover, err = proofs.SignHandover(previous, next)
		require.NoError(t, err)
	}
	v := record.NewKeyRotation(string(step), previous.Verifier().String(), next.Verifier().String(), handover)
	seq := uint64(len(m.entries))
	changes := 1
	for _, entry := range m.entries {
		if bytes.Contains(entry, []byte(`"kind":"key_rotated"`)) {
			changes++
		}
	}
	key := record.RotationIdempotencyKeyDigest(changes)
	m.keys[key] = Claim{Seq: seq, RecordDigest: record.DigestWithKind(v.Kind, v.Digest)}
	m.add(v.AppendBodyPrefix(nil, record.EventContext{Actor: "lab", Ledger: "default", IdempotencyKeyDigest: &key}))
	m.head.Size = seq + 1
	m.seal(t)
}

// signedBy signs the checkpoint of the head with the given signers.
func (m *memory) signedBy(t testing.TB, signers ...*proofs.Signer) {
	t.Helper()
	var err error
	m.head.Checkpoint, err = proofs.SignCheckpoint(proofs.Checkpoint{Origin: testOrigin, Size: m.head.Size, Root: m.retile(t)}, signers...)
	require.NoError(t, err)
}

// The walk follows the keys of a log through its events, no matter which of the keys is trusted and
// how many walks it takes to cover the log.
func TestKeysChange(t *testing.T) {
	first, second := testSigner(t, testOrigin, 1), testSigner(t, testOrigin, 2)
	m := newMemory(t, 300)
	a := newAuditor()
	require.Nil(t, a.walk(t, m).Damage)

	m.changeKey(t, proofs.KeyStepIntroduced, first, second)
	m.signedBy(t, second, first)
	require.Nil(t, walked(t, m).Damage)
	both := []*proofs.Verifier{second.Verifier(), first.Verifier()}
	introduced := m.clone()
	check := func(m *memory, verifiers []*proofs.Verifier, kind DamageKind, seq uint64) {
		t.Helper()
		options := Options{Verifiers: verifiers}
		stored, err := WalkLog(t.Context(), m, options)
		require.NoError(t, err)
		extended, at, err := ExtendWalk(t.Context(), published{m}, options, ExtendOptions{Start: a.at, History: a.past, SeenCheckpoints: a.seen})
		require.NoError(t, err)
		for _, report := range []*Report{stored, extended} {
			if kind == "" {
				require.Nil(t, report.Damage)
				continue
			}
			require.NotNil(t, report.Damage)
			require.Equal(t, []any{kind, seq}, []any{report.Damage.Kind, report.Damage.Seq}, "%v", report.Damage)
		}
		if kind == "" {
			a.at = at
		}
	}
	check(m, both, "", 0)
	for _, signer := range []*proofs.Signer{first, second} { // during the overlap, both keys must sign
		introduced.signedBy(t, signer)
		check(introduced, both, DamageKindSignature, introduced.head.Size)
	}

	m.changeKey(t, proofs.KeyStepRetired, first, second)
	retired := m.head.Size
	m.signedBy(t, second)
	check(m, both, "", 0)
	check(m, both[:1], "", 0)
	old := m.clone()
	old.signedBy(t, first)
	check(old, both, DamageKindSignature, retired)

	again := m.clone()
	again.changeKey(t, proofs.KeyStepIntroduced, second, first)
	again.signedBy(t, second)
	check(again, both, DamageKindEvent, retired)

	// If only the second key is trusted, a signature by the first key alone does not suffice, even
	// though the log contains the event in which the first key names the second.
	thief := introduced.clone()
	thief.signedBy(t, first)
	check(thief, both[:1], DamageKindSignature, thief.head.Size)
	before := newMemory(t, 300)
	before.signedBy(t, first)
	check(before, both[:1], DamageKindSignature, before.head.Size)
	given := Options{Verifiers: both[:1], Successors: both}
	report, _, err := ExtendWalk(t.Context(), published{before}, given, ExtendOptions{History: newMemoryHistory()})
	require.NoError(t, err)
	require.Equal(t, DamageKindEvent, report.Damage.Kind, "a trusted key must be one of the log's keys")
	report, _, err = ExtendWalk(t.Context(), published{thief}, given, ExtendOptions{History: newMemoryHistory()})
	require.NoError(t, err)
	require.Equal(t, DamageKindSignature, report.Damage.Kind, "a signature by a key older than the trusted one does not suffice")
	stranger := m.clone()
	stranger.changeKey(t, proofs.KeyStepIntroduced, testSigner(t, testOrigin, 3), testSigner(t, testOrigin, 4))
	stranger.signedBy(t, second)
	check(stranger, both, DamageKindEvent, retired)
}

// WalkLog reports damage if no event introduces the trusted key, even if that key signs the checkpoint.
func TestTrustedKeyWithoutAnEvent(t *testing.T) {
	m := newMemory(t, 30)
	other := testSigner(t, testOrigin, 2)
	m.signedBy(t, other)
	report, err := WalkLog(t.Context(), m, Options{Verifiers: []*proofs.Verifier{other.Verifier()}})
	require.NoError(t, err)
	require.NotNil(t, report.Damage)
	require.Equal(t, []any{DamageKindEvent, uint64(0)}, []any{report.Damage.Kind, report.Damage.Seq})
}
