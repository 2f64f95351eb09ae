package api

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// textProof holds the parts of a tlog-proof. cutProof parses them as the specification says,
// without using the code under test.
type textProof struct {
	extra      []byte
	index      string
	hashes     [][32]byte
	checkpoint []byte
}

func cutProof(t *testing.T, text []byte) (p textProof) {
	t.Helper()
	decode := func(line string) []byte {
		b, err := base64.StdEncoding.Strict().DecodeString(line)
		require.NoError(t, err, line)
		return b
	}
	head, checkpoint, whole := bytes.Cut(text, []byte("\n\n"))
	require.True(t, whole)
	p.checkpoint = checkpoint
	lines := strings.Split(string(head), "\n")
	require.Equal(t, "c2sp.org/tlog-proof@v1", lines[0])
	extra, given := strings.CutPrefix(lines[1], "extra ")
	require.True(t, given)
	p.extra = decode(extra)
	index, given := strings.CutPrefix(lines[2], "index ")
	require.True(t, given)
	p.index = index
	for _, line := range lines[3:] {
		p.hashes = append(p.hashes, [32]byte(decode(line)))
	}
	return p
}

// fold computes the root from a leaf and the hashes of an inclusion proof, which are ordered from
// the leaf's sibling up to a child of the root (RFC 6962, section 2.1.1).
func (p textProof) fold(leaf [32]byte, index, size uint64) [32]byte {
	node := func(left, right [32]byte) [32]byte {
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
	h := leaf
	for last, at := size-1, 0; last > 0; index, last = index/2, last/2 {
		switch {
		case index%2 == 1:
			h, at = node(p.hashes[at], h), at+1
		case index < last:
			h, at = node(h, p.hashes[at]), at+1
		}
	}
	return h
}

func TestTlogProof(t *testing.T) {
	s := filled(t, 299)
	entries := s.entries()
	_, _, key := s.publicKey()
	get := func(seq, size int) answer {
		return s.get(fmt.Sprintf("/records/%d/receipt?tree_size=%d", seq, size), "Accept", "text/plain").want(http.StatusOK)
	}
	for _, c := range []struct{ seq, size int }{{0, 1}, {0, 300}, {1, 2}, {254, 255}, {255, 256}, {256, 257}, {299, 300}, {128, 300}} {
		t.Run(fmt.Sprintf("verifies offline, step by step: entry %d of %d", c.seq, c.size), func(t *testing.T) {
			p := cutProof(t, get(c.seq, c.size).body)
			require.Equal(t, strconv.Itoa(c.seq), p.index, "no leading zeroes")
			require.Equal(t, entries[c.seq], p.extra)
			n := cutNote(t, p.checkpoint)
			signature, err := base64.StdEncoding.DecodeString(n.signatures[0][1])
			require.NoError(t, err)
			require.True(t, ed25519.Verify(key, []byte(n.text), signature[4:]))
			require.Equal(t, strconv.Itoa(c.size), n.lines[1])
			root := p.fold(mth(entries[c.seq:c.seq+1]), uint64(c.seq), uint64(c.size))
			require.Equal(t, mth(entries[:c.size]), root)
			require.Equal(t, base64.StdEncoding.EncodeToString(root[:]), n.lines[2])
		})
	}
	t.Run("a tree of one has a proof of no hashes", func(t *testing.T) {
		require.Empty(t, cutProof(t, get(0, 1).body).hashes)
	})
	t.Run("the checkpoint is included verbatim", func(t *testing.T) {
		require.Equal(t, s.get("/log/checkpoint").body, cutProof(t, get(7, 300).body).checkpoint)
	})
	t.Run("SHOULD be stored with the extension .tlog-proof", func(t *testing.T) {
		a := get(7, 300)
		require.Equal(t, `attachment; filename="default-7.tlog-proof"`, a.header.Get("Content-Disposition"))
		require.Equal(t, "text/plain; charset=UTF-8", a.header.Get("Content-Type"))
	})
	t.Run("MUST NOT trust the extra data", func(t *testing.T) {
		good := string(get(7, 300).body)
		extra := base64.StdEncoding.EncodeToString(entries[7])
		for _, other := range [][]byte{entries[8], append(bytes.Clone(entries[7]), ' ')} {
			p, err := proofs.ParseTlogProof([]byte(strings.Replace(good, extra, base64.StdEncoding.EncodeToString(other), 1)))
			require.NoError(t, err)
			require.ErrorIs(t, p.Verify(s.verifier()), proofs.ErrInclusion)
		}
	})
	t.Run("MAY have no extra data", func(t *testing.T) {
		head, rest, _ := strings.Cut(string(get(7, 300).body), "extra ")
		_, rest, _ = strings.Cut(rest, "\n")
		p, err := proofs.ParseTlogProof([]byte(head + rest))
		require.NoError(t, err)
		require.Empty(t, p.Extra)
		require.EqualValues(t, 7, p.Index)
	})
	for gist, edit := range map[string][2]string{
		"the first line MUST be c2sp.org/tlog-proof@v1": {"proof@v1", "proof@v2"},
		"the next line MUST start with index":           {"\nindex 7\n", "\nleaf 7\n"},
		"the index has no leading zeroes":               {"\nindex 7\n", "\nindex 07\n"},
		"lines end with newlines alone":                 {"\nindex 7\n", "\r\nindex 7\r\n"},
		"an empty line precedes the checkpoint":         {"\n\n" + s.ledger().Info().Origin, "\n" + s.ledger().Info().Origin},
	} {
		t.Run(gist, func(t *testing.T) {
			good := string(get(7, 300).body)
			require.Contains(t, good, edit[0])
			_, err := proofs.ParseTlogProof([]byte(strings.Replace(good, edit[0], edit[1], 1)))
			require.ErrorIs(t, err, proofs.ErrMalformed)
		})
	}
}
