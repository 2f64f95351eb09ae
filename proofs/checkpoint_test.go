package proofs

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
)

const testOrigin = "ledger.example/default"

// testSigner returns a signer for the given origin. Its key depends only on number.
func testSigner(t testing.TB, origin string, number byte) *Signer {
	t.Helper()
	s, err := NewKey([ed25519.SeedSize]byte{number}).Signer(origin)
	require.NoError(t, err)
	return s
}

func TestKeysAreThoseOfNotes(t *testing.T) {
	key := NewKey([ed25519.SeedSize]byte{1, 2, 3})
	public := ed25519.NewKeyFromSeed([]byte("\x01\x02\x03" + strings.Repeat("\x00", 29))).Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	require.Equal(t, hex.EncodeToString(sum[:])[:16], key.Fingerprint())
	require.Equal(t, key.Fingerprint(), KeyFingerprint(public))

	origin := "ledger.example/" + key.Fingerprint()
	signer, err := key.Signer(origin)
	require.NoError(t, err)
	require.Equal(t, origin, signer.Origin())
	vkey, err := note.NewEd25519VerifierKey(origin, public)
	require.NoError(t, err)
	require.Equal(t, vkey, signer.Verifier().String())
	require.Equal(t, key.Fingerprint(), signer.Verifier().Fingerprint())

	theirs, err := note.NewSigner(signer.Secret())
	require.NoError(t, err)
	require.Equal(t, origin, theirs.Name())
	require.Equal(t, signer.Verifier().KeyHash(), theirs.KeyHash())

	skey, vkey, err := note.GenerateKey(nil, origin)
	require.NoError(t, err)
	parsed, err := ParseSigner(skey)
	require.NoError(t, err)
	require.Equal(t, skey, parsed.Secret())
	require.Equal(t, vkey, parsed.Verifier().String())
	require.NotEqual(t, GenerateKey().Fingerprint(), GenerateKey().Fingerprint())
}

// ParseVerifier accepts the example key of the signed-note specification.
func TestVerifierOfTheSpecification(t *testing.T) {
	const vkey = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	v, err := ParseVerifier(vkey)
	require.NoError(t, err)
	require.Equal(t, vkey, v.String())
	signed := "This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
	_, err = note.Open([]byte(signed), note.VerifierList(v))
	require.NoError(t, err)
}

func TestKeysRefused(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	vkey, secret := signer.Verifier().String(), signer.Secret()
	for _, bad := range []string{
		"", "x", vkey + "=", vkey[1:], strings.ToUpper(vkey), strings.Replace(vkey, "+", "++", 1), secret,
		strings.Replace(vkey, testOrigin, "other.example", 1), vkey + "\n", " " + vkey,
	} {
		_, err := ParseVerifier(bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
	for _, bad := range []string{"", vkey, secret[1:], strings.Replace(secret, testOrigin, "other.example", 1), secret + "A"} {
		_, err := ParseSigner(bad)
		require.ErrorIs(t, err, ErrMalformed, "%q", bad)
	}
	for _, bad := range []string{"", "with space", "with+plus", "with\nnewline", "nbsp\u00a0", "\xff"} {
		_, err := GenerateKey().Signer(bad)
		require.Error(t, err, "%q", bad)
	}
}

func TestSecretsStayOutOfMessages(t *testing.T) {
	key := NewKey([ed25519.SeedSize]byte{1})
	signer := testSigner(t, testOrigin, 1)
	seed := base64.StdEncoding.EncodeToString(append([]byte{1}, key.private.Seed()...))
	require.Contains(t, signer.Secret(), seed)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		shown := fmt.Sprintf(format, key) + fmt.Sprintf(format, signer)
		require.NotContains(t, shown, seed, format)
		require.NotContains(t, shown, fmt.Sprint(key.private.Seed()), format)
		require.Contains(t, shown, key.Fingerprint(), format)
	}
}

func TestCheckpoints(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	for _, c := range []Checkpoint{
		{testOrigin, 0, EmptyRoot()}, {testOrigin, 20852163, testLeaf(1)}, {testOrigin, 1<<64 - 1, Hash{}},
	} {
		signed, err := signer.Sign(c)
		require.NoError(t, err)
		lines := strings.Split(string(signed), "\n")
		require.Equal(t, []string{c.Origin, fmt.Sprint(c.Size), base64.StdEncoding.EncodeToString(c.Root[:]), ""}, lines[:4])
		require.True(t, strings.HasPrefix(lines[4], "— "+testOrigin+" "))
		require.Equal(t, []string{""}, lines[5:])

		got, err := OpenCheckpoint(signed, testSigner(t, testOrigin, 2).Verifier(), signer.Verifier(), signer.Verifier())
		require.NoError(t, err)
		require.Equal(t, c, got)
		theirs, rest, _, err := log.ParseCheckpoint(signed, testOrigin, signer.Verifier())
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Equal(t, log.Checkpoint{Origin: c.Origin, Size: c.Size, Hash: c.Root[:]}, *theirs)
	}
	_, err := signer.Sign(Checkpoint{Origin: "other.example"})
	require.ErrorIs(t, err, ErrWrongOrigin)
}

// signText signs text as a note, even if it is not a valid checkpoint.
func signText(t testing.TB, text string, signers ...*Signer) []byte {
	t.Helper()
	n := &note.Note{Text: text}
	var list []note.Signer
	for _, s := range signers {
		list = append(list, s.signer)
	}
	signed, err := note.Sign(n, list...)
	require.NoError(t, err)
	return signed
}

func TestOpenCheckpointErrors(t *testing.T) {
	signer, other := testSigner(t, testOrigin, 1), testSigner(t, testOrigin, 2)
	named := testSigner(t, "witness.example", 1)
	root := base64.StdEncoding.EncodeToString(make([]byte, HashSize))
	text := testOrigin + "\n7\n" + root + "\n"
	good := string(signText(t, text, signer))
	want := Checkpoint{Origin: testOrigin, Size: 7}
	at := strings.Index(good, "— ")
	signature := good[at:]

	accepted := map[string]string{
		"plain":                   good,
		"extension lines":         string(signText(t, text+"one\ntwo\n", signer)),
		"other signatures before": string(signText(t, text, other, named, signer)),
		"other signatures after":  string(signText(t, text, signer, other, named)),
	}
	for name, signed := range accepted {
		got, err := OpenCheckpoint([]byte(signed), signer.Verifier())
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}

	type refusal struct {
		signed string
		err    error
	}
	refused := map[string]refusal{
		"other key":            {string(signText(t, text, other)), ErrWrongKey},
		"same key, other name": {string(signText(t, text, named)), ErrWrongKey},
		"changed size":         {strings.Replace(good, "\n7\n", "\n8\n", 1), ErrSignature},
		"added extension":      {strings.Replace(good, "\n\n", "\nmore\n\n", 1), ErrSignature},
		"changed origin":       {strings.Replace(good, testOrigin, "ledger.example/changed", 1), ErrSignature},
		"other origin":         {string(signText(t, "ledger.example/other\n7\n"+root+"\n", signer)), ErrWrongOrigin},
		"leading zero":         {string(signText(t, testOrigin+"\n07\n"+root+"\n", signer)), ErrMalformed},
		"signed size":          {string(signText(t, testOrigin+"\n+7\n"+root+"\n", signer)), ErrMalformed},
		"huge size":            {string(signText(t, testOrigin+"\n18446744073709551616\n"+root+"\n", signer)), ErrMalformed},
		"short root":           {string(signText(t, testOrigin+"\n7\n"+root[4:]+"\n", signer)), ErrMalformed},
		"loose root":           {string(signText(t, testOrigin+"\n7\n"+root[:42]+"B=\n", signer)), ErrMalformed},
		"two lines":            {string(signText(t, testOrigin+"\n7\n", signer)), ErrMalformed},
		"no origin":            {string(signText(t, "\n7\n"+root+"\n", signer)), ErrMalformed},
		"empty line":           {string(signText(t, text+"\none\n", signer)), ErrMalformed},
		"empty line inside":    {string(signText(t, text+"one\n\ntwo\n", signer)), ErrMalformed},
		"empty line at end":    {string(signText(t, text+"\n", signer)), ErrMalformed},
		"loose signature":      {good[:len(good)-3] + string(good[len(good)-3]+1) + "=\n", ErrMalformed},
		"no signature":         {good[:at], ErrMalformed},
		"no blank line":        {text + signature, ErrMalformed},
		"carriage return":      {strings.Replace(good, "\n7\n", "\r\n7\n", 1), ErrMalformed},
		"text after":           {good + "more", ErrMalformed},
		"empty":                {"", ErrMalformed},
		"too large":            {strings.Repeat("x", maxCheckpoint+1), ErrMalformed},
	}
	for name, c := range refused {
		_, err := OpenCheckpoint([]byte(c.signed), signer.Verifier())
		require.ErrorIs(t, err, c.err, name)
	}
	_, err := OpenCheckpoint([]byte(good))
	require.ErrorIs(t, err, ErrWrongKey)
}

// OpenCheckpoint refuses a signed checkpoint if any single bit of it is changed.
func TestCheckpointBits(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	signed, err := signer.Sign(Checkpoint{testOrigin, 7, testLeaf(3)})
	require.NoError(t, err)
	for i := range len(signed) * 8 {
		changed := append([]byte(nil), signed...)
		changed[i/8] ^= 1 << (i % 8)
		_, err := OpenCheckpoint(changed, signer.Verifier())
		require.Error(t, err, "bit %d: %q", i, changed)
	}
}

func FuzzOpenCheckpoint(f *testing.F) {
	signer := testSigner(f, testOrigin, 1)
	f.Add(testOrigin + "\n7\n" + base64.StdEncoding.EncodeToString(make([]byte, HashSize)) + "\n")
	f.Add(testOrigin + "\n07\nx\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := OpenCheckpoint([]byte(text), signer.Verifier())
		require.Error(t, err, "no key has signed this text")

		signed, err := note.Sign(&note.Note{Text: text}, signer.signer)
		if err != nil {
			return
		}
		c, err := OpenCheckpoint(signed, signer.Verifier())
		if err != nil {
			return
		}
		require.Equal(t, testOrigin, c.Origin)
		require.True(t, strings.HasPrefix(text, c.text()))
		require.True(t, strings.HasSuffix(text, "\n"))
		require.NotContains(t, text, "\n\n")
	})
}
