package proofs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/transparency-dev/formats/proof"
)

func TestTlogProofs(t *testing.T) {
	l := newTestLog(t, 9)
	for size := uint64(1); size <= 9; size++ {
		for seq := range size {
			r := l.receipt(t, seq, size)
			p, err := r.TlogProof()
			require.NoError(t, err)
			require.NoError(t, p.Verify(l.signer.Verifier()))
			text := p.Append(nil)
			parsed, err := ParseTlogProof(text)
			require.NoError(t, err)
			require.Equal(t, text, parsed.Append(nil))
			require.NoError(t, parsed.Verify(l.signer.Verifier()))
			require.Equal(t, l.entries[seq], parsed.Extra)

			var theirs proof.TLogProof
			require.NoError(t, theirs.Unmarshal(text))
			require.Equal(t, proof.TLogProof{
				Index: seq, Hashes: parsed.Hashes, Checkpoint: r.Proof.Checkpoint, ExtraData: l.entries[seq],
			}, theirs)
			require.Equal(t, text, theirs.Marshal())
		}
	}
}

// TlogProof.Append writes the format c2sp.org/tlog-proof@v1.
func TestTlogProofText(t *testing.T) {
	h := testLeaf(1)
	line := base64.StdEncoding.EncodeToString(h[:]) + "\n"
	p := TlogProof{Extra: []byte("entry"), Index: 73894, Hashes: []Hash{h, h}, Checkpoint: []byte("note\n")}
	require.Equal(t, "c2sp.org/tlog-proof@v1\nextra ZW50cnk=\nindex 73894\n"+line+line+"\nnote\n", string(p.Append(nil)))
	p = TlogProof{Checkpoint: []byte("note\n")}
	require.Equal(t, "c2sp.org/tlog-proof@v1\nindex 0\n\nnote\n", string(p.Append(nil)))
	parsed, err := ParseTlogProof(p.Append(nil))
	require.NoError(t, err)
	require.Equal(t, &p, parsed)
	require.ErrorIs(t, parsed.Verify(testSigner(t, testOrigin, 1).Verifier()), ErrNoProof)
}

func TestParseTlogProofRefuses(t *testing.T) {
	l := newTestLog(t, 5)
	p, err := l.receipt(t, 1, 5).TlogProof()
	require.NoError(t, err)
	good := string(p.Append(nil))
	first := base64.StdEncoding.EncodeToString(p.Hashes[0][:]) + "\n"
	replace := func(old, replacement string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, replacement, 1)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"other version":    replace("@v1", "@v2"),
		"carriage returns": replace("@v1\n", "@v1\r\n"),
		"no index":         replace("index 1\n", ""),
		"bare index":       replace("index 1\n", "1\n"),
		"index twice":      replace("index 1\n", "index 1\nindex 1\n"),
		"leading zero":     replace("index 1\n", "index 01\n"),
		"signed index":     replace("index 1\n", "index +1\n"),
		"two spaces":       replace("index 1\n", "index  1\n"),
		"empty extra":      replace("extra "+base64.StdEncoding.EncodeToString(p.Extra), "extra "),
		"loose extra":      replace("extra "+base64.StdEncoding.EncodeToString(p.Extra), "extra QR=="),
		"extra twice":      replace("extra ", "extra QQ==\nextra "),
		"short hash":       replace(first, first[4:]),
		"loose hash":       replace(first, first[:42]+string(first[42]+1)+"=\n"),
		"too many hashes":  replace(first, strings.Repeat(first, maxPath+1)),
		"no checkpoint":    good[:strings.Index(good, "\n\n")+2],
		"no blank line":    replace("\n\n", "\n"),
		"unknown line":     replace("index", "note x\nindex"),
	} {
		_, err := ParseTlogProof([]byte(text))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

func TestTlogProofErrors(t *testing.T) {
	l := newTestLog(t, 9)
	cases := map[string]struct {
		change func(p *TlogProof)
		want   error
	}{
		"no entry":             {func(p *TlogProof) { p.Extra = nil }, ErrNoProof},
		"changed entry":        {func(p *TlogProof) { p.Extra[40] ^= 1 }, ErrInclusion},
		"changed index":        {func(p *TlogProof) { p.Index++ }, ErrInclusion},
		"changed path":         {func(p *TlogProof) { p.Hashes[0][0] ^= 1 }, ErrInclusion},
		"older checkpoint":     {func(p *TlogProof) { p.Checkpoint = l.checkpoint(t, 8) }, ErrInclusion},
		"changed checkpoint":   {func(p *TlogProof) { p.Checkpoint = bytes.Replace(p.Checkpoint, []byte("\n9\n"), []byte("\n8\n"), 1) }, ErrSignature},
		"malformed checkpoint": {func(p *TlogProof) { p.Checkpoint = []byte("x\n") }, ErrMalformed},
	}
	for name, c := range cases {
		p, err := l.receipt(t, 4, 9).TlogProof()
		require.NoError(t, err)
		c.change(p)
		require.ErrorIs(t, p.Verify(l.signer.Verifier()), c.want, name)
	}
	p, err := l.receipt(t, 4, 9).TlogProof()
	require.NoError(t, err)
	require.ErrorIs(t, p.Verify(testSigner(t, testOrigin, 2).Verifier()), ErrWrongKey)
}

// A proof does not cover its extra data. VerifyEntry ignores this data and returns the ledger's
// receipt if it is called with the proved entry.
func TestTlogProofsWithSeparateEntries(t *testing.T) {
	l := newTestLog(t, 9)
	for seq := range uint64(9) {
		want := l.receipt(t, seq, 9)
		p, err := want.TlogProof()
		require.NoError(t, err)
		for _, extra := range [][]byte{nil, []byte("whatever")} {
			p.Extra = extra
			parsed, err := ParseTlogProof(p.Append(nil))
			require.NoError(t, err)
			got, err := parsed.VerifyEntry(l.entries[seq], l.signer.Verifier())
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.NoError(t, got.Verify(l.signer.Verifier()))
			require.Error(t, parsed.Verify(l.signer.Verifier()))
			_, err = parsed.VerifyEntry(l.entries[(seq+1)%9], l.signer.Verifier())
			require.ErrorIs(t, err, ErrInclusion)
		}
	}
}

// TlogProof.Verify refuses a valid proof of a leaf that is not an event.
func TestTlogProofsOfLeavesThatAreNotEvents(t *testing.T) {
	signer := testSigner(t, testOrigin, 1)
	body := fmt.Appendf(nil, testBodies[0], 7)
	for name, c := range map[string]struct {
		entry []byte
		want  error
	}{
		"not an event":  {[]byte("x"), ErrMalformed},
		"not JSON":      {AppendEntry(nil, Hash{}, []byte("x")), ErrMalformed},
		"not canonical": {AppendEntry(nil, Hash{}, append([]byte(" "), body...)), ErrMalformed},
		"too long":      {make([]byte, MaxEntryBytes+1), ErrTooLong},
		"another index": {AppendEntry(nil, Hash{}, body), ErrFieldMismatch},
	} {
		signed, err := signer.Sign(Checkpoint{testOrigin, 1, LeafHash(c.entry)})
		require.NoError(t, err)
		p := &TlogProof{Extra: c.entry, Checkpoint: signed}
		require.ErrorIs(t, p.Verify(signer.Verifier()), c.want, name)
	}
}

func TestEveryByteOfATlogProofCounts(t *testing.T) {
	l := newTestLog(t, 3)
	p, err := l.receipt(t, 1, 3).TlogProof()
	require.NoError(t, err)
	text := p.Append(nil)
	for i := range len(text) * 8 {
		changed := bytes.Clone(text)
		changed[i/8] ^= 1 << (i % 8)
		if parsed, err := ParseTlogProof(changed); err == nil {
			require.Error(t, parsed.Verify(l.signer.Verifier()), "bit %d: %s", i, changed)
		}
	}
}

func FuzzParseTlogProof(f *testing.F) {
	l := newTestLog(f, 3)
	p, err := l.receipt(f, 1, 3).TlogProof()
	require.NoError(f, err)
	good, signed := p.Append(nil), p.Checkpoint
	f.Add(good)
	f.Add(fmt.Appendf(nil, "%sindex 0\n\nnote\n", tlogProofHeader))
	verifier := l.signer.Verifier()
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseTlogProof(text)
		if err != nil {
			require.ErrorIs(t, err, ErrMalformed)
			return
		}
		require.Equal(t, text, p.Append(nil))
		if p.Verify(verifier) == nil {
			p.Checkpoint = signed // the checkpoint can contain additional signatures by other keys
			require.Equal(t, string(good), string(p.Append(nil)), "no other proof is signed")
		}
	})
}
