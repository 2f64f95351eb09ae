package proofs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"colophon/ledger/record/pyjson"
)

// introduced returns the key change in which previous introduces next.
func introduced(t require.TestingT, previous, next *Signer) KeyChange {
	handover, err := SignHandover(previous, next)
	require.NoError(t, err)
	return KeyChange{Step: KeyStepIntroduced, Previous: previous.Verifier(), Next: next.Verifier(), HandoverNote: handover}
}

func retired(previous, next *Signer) KeyChange {
	return KeyChange{Step: KeyStepRetired, Previous: previous.Verifier(), Next: next.Verifier()}
}

// recordOf returns the JSON record of the event that makes a key change.
func recordOf(t testing.TB, c KeyChange) []byte {
	t.Helper()
	text := fmt.Appendf(nil, `{"digest":"","previous_key":%q,"step":%q,"verifier_key":%q`, c.Previous, c.Step, c.Next)
	if c.HandoverNote != nil {
		text = pyjson.AppendString(append(text, `,"handover":`...), c.HandoverNote)
	}
	return append(text, '}')
}

// logKey returns a history as the body of a log/key response.
func logKey(t require.TestingT, h *KeyHistory) []byte {
	text, err := json.Marshal(h)
	require.NoError(t, err)
	return text
}

// A verifier that knows the whole history accepts a checkpoint of any size that is signed by the
// log's keys at that size, and refuses a checkpoint from a key that was retired at a smaller size.
func TestKeysSignWhileTheyAreInForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signers := make([]*Signer, rapid.IntRange(1, 5).Draw(t, "keys"))
		for i := range signers {
			s, err := NewKey([32]byte{byte(i)}).Signer(testOrigin)
			require.NoError(t, err)
			signers[i] = s
		}
		h, seq := NewKeyHistory(signers[0].Verifier()), uint64(0)
		until := make([]uint64, len(signers)) // the seq at which each key was retired; 0 if it is not retired
		changes := 0
		for i, next := range signers[1:] {
			seq += rapid.Uint64Range(1, 9).Draw(t, "introduced")
			require.NoError(t, h.Add(seq, introduced(t, signers[i], next)))
			changes++
			require.ErrorIs(t, h.Add(seq+1, introduced(t, next, signers[i])), ErrMalformed, "three keys cannot overlap")
			require.Equal(t, signers[i].Verifier().String(), h.OverlappingKey().String())
			if i == len(signers)-2 && rapid.Bool().Draw(t, "overlapping") {
				break
			}
			seq += rapid.Uint64Range(1, 9).Draw(t, "retired")
			require.NoError(t, h.Add(seq, retired(signers[i], next)))
			changes++
			until[i] = seq
			require.Nil(t, h.OverlappingKey())
			require.ErrorIs(t, h.Add(seq+1, retired(signers[i], next)), ErrMalformed)
			require.ErrorIs(t, h.Add(seq+1, introduced(t, next, signers[i])), ErrMalformed, "a replaced key cannot be introduced again")
		}
		require.Equal(t, changes, h.NumChanges())
		again, err := ParseKeyHistory(logKey(t, h))
		require.NoError(t, err)
		require.Equal(t, string(logKey(t, h)), string(logKey(t, again)))
		requireInForce(t, h, signers[:len(h.Verifiers())], seq+3)
		for i, s := range signers {
			for size := uint64(1); size < seq+3; size++ {
				signed, err := s.Sign(Checkpoint{Origin: testOrigin, Size: size})
				require.NoError(t, err)
				_, err = OpenCheckpoint(signed, h.Verifiers()...)
				if until[i] == 0 || size <= until[i] {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, ErrRetiredKey)
				}
			}
		}
	})
}

// requireInForce compares the results of SigningKeysAt and VerifiersFrom with those of a naive walk over
// the changes.
func requireInForce(t *rapid.T, h *KeyHistory, signers []*Signer, sizes uint64) {
	changes := h.ChangeSeqs()
	for size := uint64(1); size < sizes; size++ {
		oldest, newest := 0, 0
		for i, at := range changes {
			switch {
			case at >= size:
			case i%2 == 0:
				newest++
			default:
				oldest++
			}
		}
		var want []*Signer
		for i := newest; i >= oldest; i-- {
			want = append(want, signers[i])
		}
		require.Equal(t, len(want), len(h.SigningKeysAt(size)))
		for i, key := range h.SigningKeysAt(size) {
			require.Equal(t, want[i].Verifier().String(), key.String())
		}
		signed, err := SignCheckpoint(Checkpoint{Origin: testOrigin, Size: size}, want...)
		require.NoError(t, err)
		for i, s := range signers {
			_, err := h.OpenCheckpoint(signed, s.Verifier())
			require.Equal(t, i <= newest, err == nil, "size %d, trusted %d, in force %d to %d: %v", size, i, oldest, newest, err)
			require.Equal(t, len(signers)-i, len(h.VerifiersFrom(s.Verifier())))
		}
		if len(want) == 2 {
			one, err := want[rapid.IntRange(0, 1).Draw(t, "alone")].Sign(Checkpoint{Origin: testOrigin, Size: size})
			require.NoError(t, err)
			_, err = h.OpenCheckpoint(one, signers[0].Verifier())
			require.ErrorIs(t, err, ErrWrongKey)
		}
	}
}

func TestBothSignaturesCount(t *testing.T) {
	a, b, c := testSigner(t, testOrigin, 1), testSigner(t, testOrigin, 2), testSigner(t, testOrigin, 3)
	signed, err := SignCheckpoint(Checkpoint{Origin: testOrigin, Size: 7}, b, a)
	require.NoError(t, err)
	for _, keys := range [][]*Verifier{{a.Verifier()}, {b.Verifier()}, {a.Verifier().WithRetirement(6), b.Verifier()}, {a.Verifier().WithRetirement(7)}} {
		_, err := OpenCheckpoint(signed, keys...)
		require.NoError(t, err)
	}
	_, err = OpenCheckpoint(signed, a.Verifier().WithRetirement(6), c.Verifier())
	require.ErrorIs(t, err, ErrRetiredKey)
	_, err = OpenCheckpoint(signed, c.Verifier())
	require.ErrorIs(t, err, ErrWrongKey)
	broken := []byte(strings.Replace(string(signed), "\n7\n", "\n8\n", 1))
	_, err = OpenCheckpoint(broken, a.Verifier(), b.Verifier())
	require.ErrorIs(t, err, ErrSignature)
	_, err = SignCheckpoint(Checkpoint{Origin: testOrigin}, a, testSigner(t, "other.example", 1))
	require.ErrorIs(t, err, ErrWrongOrigin)
}

func TestInvalidHandovers(t *testing.T) {
	a, b, c := testSigner(t, testOrigin, 1), testSigner(t, testOrigin, 2), testSigner(t, testOrigin, 3)
	good := introduced(t, a, b)
	for name, k := range map[string]struct {
		change KeyChange
		err    error
	}{
		"none":              {KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), nil}, ErrMalformed},
		"of another key":    {KeyChange{KeyStepIntroduced, a.Verifier(), c.Verifier(), good.HandoverNote}, ErrMalformed},
		"by an unknown key": {KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), introduced(t, c, b).HandoverNote}, ErrWrongKey},
		"not authorised":    {KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), introduced(t, b, c).HandoverNote}, ErrWrongKey},
		"the other way":     {KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), introduced(t, b, a).HandoverNote}, ErrMalformed},
		"changed":           {KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), []byte(strings.Replace(string(good.HandoverNote), "v1", "v2", 1))}, ErrSignature},
		"not the present":   {introduced(t, c, b), ErrMalformed},
		"itself":            {introduced(t, a, a), ErrMalformed},
		"retired too soon":  {retired(a, b), ErrMalformed},
	} {
		h := NewKeyHistory(a.Verifier())
		require.ErrorIs(t, h.Add(5, k.change), k.err, name)
		require.Equal(t, string(logKey(t, NewKeyHistory(a.Verifier()))), string(logKey(t, h)), name)
	}
	_, err := SignHandover(a, testSigner(t, "other.example", 2))
	require.ErrorIs(t, err, ErrWrongOrigin)
	signed, err := a.Sign(Checkpoint{Origin: testOrigin, Size: 1})
	require.NoError(t, err)
	require.ErrorIs(t, NewKeyHistory(a.Verifier()).Add(5, KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), signed}), ErrMalformed)
	_, err = OpenCheckpoint(good.HandoverNote, a.Verifier())
	require.ErrorIs(t, err, ErrMalformed, "no handover is a checkpoint")
}

func TestKeyChangesAreReadStrictly(t *testing.T) {
	a, b := testSigner(t, testOrigin, 1), testSigner(t, testOrigin, 2)
	parse := func(text string) (KeyChange, error) {
		var doc pyjson.Document
		require.NoError(t, doc.Parse([]byte(text)))
		return ParseKeyChange(doc.Root())
	}
	for _, want := range []KeyChange{introduced(t, a, b), retired(a, b)} {
		got, err := parse(string(recordOf(t, want)))
		require.NoError(t, err)
		require.Equal(t, recordOf(t, want), recordOf(t, got))
	}
	good := string(recordOf(t, introduced(t, a, b)))
	for _, bad := range []string{
		"{}", "[]", strings.Replace(good, `"step":"introduced"`, `"step":"retired"`, 1), strings.Replace(good, `"step":"introduced"`, `"step":"else"`, 1),
		strings.Replace(good, `"handover"`, `"note"`, 1), strings.Replace(good, testOrigin, "x", 1), string(recordOf(t, KeyChange{KeyStepIntroduced, a.Verifier(), b.Verifier(), nil})),
	} {
		_, err := parse(bad)
		require.ErrorIs(t, err, ErrMalformed, bad)
	}
}

func FuzzParseLogKey(f *testing.F) {
	a, b, c := testSigner(f, testOrigin, 1), testSigner(f, testOrigin, 2), testSigner(f, testOrigin, 3)
	h := NewKeyHistory(a.Verifier())
	f.Add(logKey(f, h))
	require.NoError(f, h.Add(3, introduced(f, a, b)))
	f.Add(logKey(f, h))
	require.NoError(f, h.Add(4, retired(a, b)))
	require.NoError(f, h.Add(5, introduced(f, b, c)))
	f.Add(logKey(f, h))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := ParseKeyHistory(text)
		if err != nil {
			return
		}
		again, err := ParseKeyHistory(logKey(t, h))
		require.NoError(t, err)
		require.Equal(t, string(logKey(t, h)), string(logKey(t, again)))
		require.True(t, h.Contains(h.CurrentKey()))
	})
}
