package api

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
)

// signedNote holds the parts of a checkpoint as defined by signed-note and tlog-checkpoint.
type signedNote struct {
	text       string   // the signed text, including its last newline
	lines      []string // text, split into lines
	signatures [][2]string
}

// cutNote splits a signed note at its last empty line.
func cutNote(t *testing.T, signed []byte) (n signedNote) {
	t.Helper()
	end := bytes.LastIndex(signed, []byte("\n\n"))
	require.Positive(t, end)
	n.text = string(signed[:end+1])
	n.lines = strings.Split(strings.TrimSuffix(n.text, "\n"), "\n")
	signatures, whole := strings.CutSuffix(string(signed[end+2:]), "\n")
	require.True(t, whole)
	for line := range strings.SplitSeq(signatures, "\n") {
		name, signature, _ := strings.Cut(strings.TrimPrefix(line, "— "), " ")
		require.Equal(t, line, "— "+name+" "+signature)
		n.signatures = append(n.signatures, [2]string{name, signature})
	}
	return n
}

// publicKey returns the name, the id, and the public key of the default ledger's signer, from
// /log/key.
func (s *service) publicKey() (name string, id [4]byte, key ed25519.PublicKey) {
	s.t.Helper()
	var answer struct {
		Origin      string `json:"origin"`
		VerifierKey string `json:"verifier_key"`
	}
	s.get("/log/key").want(http.StatusOK).json(&answer)
	parts := strings.SplitN(answer.VerifierKey, "+", 3)
	require.Len(s.t, parts, 3)
	require.Equal(s.t, answer.Origin, parts[0])
	require.Regexp(s.t, "^[0-9a-f]{8}$", parts[1])
	n, err := hex.Decode(id[:], []byte(parts[1]))
	require.NoError(s.t, err)
	require.Equal(s.t, 4, n)
	material, err := base64.StdEncoding.Strict().DecodeString(parts[2])
	require.NoError(s.t, err)
	require.Len(s.t, material, 1+ed25519.PublicKeySize)
	require.EqualValues(s.t, 1, material[0], "the signature type of Ed25519")
	return parts[0], id, material[1:]
}

func TestTlogCheckpoint(t *testing.T) {
	s := published(t, 299)
	a := s.get("/log/checkpoint").want(http.StatusOK)
	n := cutNote(t, a.body)
	name, id, key := s.publicKey()
	t.Run("MUST be served as text/plain; charset=utf-8", func(t *testing.T) {
		require.Equal(t, "text/plain; charset=utf-8", a.header.Get("Content-Type"))
	})
	t.Run("SHOULD NOT be cached beyond a few seconds", func(t *testing.T) {
		require.Equal(t, "no-cache", a.header.Get("Cache-Control"))
	})
	t.Run("a page of any origin may read it", func(t *testing.T) {
		require.Equal(t, "*", a.header.Get("Access-Control-Allow-Origin"))
	})
	t.Run("MUST have an origin, which SHOULD be a URL without scheme, spaces and plus", func(t *testing.T) {
		require.Regexp(t, `^[a-z0-9.-]+(/[a-z0-9._-]+)+$`, n.lines[0])
	})
	t.Run("the size is a decimal without leading zeroes", func(t *testing.T) {
		require.Equal(t, "300", n.lines[1])
	})
	t.Run("the root is the MTH of the entries, in base64", func(t *testing.T) {
		root := mth(s.entries())
		require.Equal(t, base64.StdEncoding.EncodeToString(root[:]), n.lines[2])
	})
	t.Run("extension lines are NOT RECOMMENDED", func(t *testing.T) {
		require.Len(t, n.lines, 3)
	})
	t.Run("the key's name SHOULD match the origin", func(t *testing.T) {
		require.Equal(t, n.lines[0], name)
		require.Equal(t, name, n.signatures[0][0])
	})
	t.Run("a public log MUST have signed with Ed25519", func(t *testing.T) {
		require.Len(t, n.signatures, 1)
		signature, err := base64.StdEncoding.Strict().DecodeString(n.signatures[0][1])
		require.NoError(t, err)
		require.Len(t, signature, 4+ed25519.SignatureSize)
		require.Equal(t, id[:], signature[:4])
		require.True(t, ed25519.Verify(key, []byte(n.text), signature[4:]))
		require.False(t, ed25519.Verify(key, []byte(strings.Replace(n.text, "300", "301", 1)), signature[4:]))
	})
	t.Run("the id of a key is RECOMMENDED to be the hash of its name, type and key", func(t *testing.T) {
		sum := sha256.Sum256(append([]byte(name+"\n\x01"), key...))
		require.Equal(t, sum[:4], id[:])
	})
	t.Run("MUST be UTF-8 without control characters but newlines", func(t *testing.T) {
		require.True(t, utf8.Valid(a.body))
		require.NotRegexp(t, regexp.MustCompile(`[\x00-\x09\x0b-\x1f]`), string(a.body))
	})
	t.Run("the size of an empty tree is 0", func(t *testing.T) {
		// A server never serves an empty log, because every ledger begins with its creation event.
		signer, err := proofs.GenerateKey().Signer("example.com/log42")
		require.NoError(t, err)
		signed, err := signer.Sign(proofs.Checkpoint{Origin: "example.com/log42", Root: proofs.EmptyRoot()})
		require.NoError(t, err)
		require.Equal(t, "example.com/log42\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n", cutNote(t, signed).text)
	})
}

// A log MUST NOT sign inconsistent trees: the tree of each checkpoint is a prefix of every later
// tree.
func TestTlogCheckpointsAreConsistent(t *testing.T) {
	s := start(t)
	_, _, key := s.publicKey()
	var roots []string
	for size := 1; size <= 130; size++ {
		n := cutNote(t, s.get("/log/checkpoint").want(http.StatusOK).body)
		signature, err := base64.StdEncoding.DecodeString(n.signatures[0][1])
		require.NoError(t, err)
		require.True(t, ed25519.Verify(key, []byte(n.text), signature[4:]))
		require.Equal(t, strconv.Itoa(size), n.lines[1])
		roots = append(roots, n.lines[2])
		s.post("/ipc-records", ipcBody("", "o")).want(http.StatusCreated)
	}
	entries := s.entries()
	for i, root := range roots {
		sum := mth(entries[:i+1])
		require.Equal(t, base64.StdEncoding.EncodeToString(sum[:]), root)
	}
}

// OpenCheckpoint follows the rules that a client MUST apply when it verifies signed notes, whether
// they come from this log or from another one.
func TestSignedNotesAreVerified(t *testing.T) {
	s := filled(t, 2)
	signed := s.get("/log/checkpoint").want(http.StatusOK).body
	name, id, _ := s.publicKey()
	text := cutNote(t, signed).text
	ours, known := strings.CutPrefix(string(signed), text+"\n")
	require.True(t, known)
	line := func(name string, id uint32, signature []byte) string {
		return "— " + name + " " + base64.StdEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, id), signature...)) + "\n"
	}
	open := func(text, signatures string) error {
		checkpoint, err := proofs.OpenCheckpoint([]byte(text+"\n"+signatures), s.verifier())
		if err == nil {
			require.EqualValues(t, 3, checkpoint.Size)
		}
		return err
	}
	other, err := proofs.GenerateKey().Signer(name)
	require.NoError(t, err)
	root := mth(s.entries())
	theirs, err := other.Sign(proofs.Checkpoint{Origin: name, Size: 3, Root: root})
	require.NoError(t, err)
	sameName := strings.TrimPrefix(string(theirs), text+"\n")
	ourID := binary.BigEndian.Uint32(id[:])
	var many strings.Builder
	for i := range uint32(16) {
		many.WriteString(line(fmt.Sprint("witness.example/", i), i, make([]byte, 5000)))
	}
	cosigned := line("witness.example/ed25519", 7, make([]byte, 8+64)) + line("witness.example/ml-dsa-44", 8, make([]byte, 8+2420))

	for gist, err := range map[string]error{
		"MUST ignore unknown signatures":                          open(text, line("example.com/other", 1, []byte("x"))+ours),
		"MUST ignore an unknown key with the name of a known one": open(text, sameName+ours),
		"MUST ignore an unknown key with the id of a known one":   open(text, line("example.com/other", ourID, []byte("x"))+ours),
		"MUST accept at least 16 signatures, of up to 5 kB":       open(text, many.String()+ours),
		"MUST ignore cosignatures of unknown witnesses":           open(text, ours+cosigned),
		"the order of signatures has no meaning":                  open(text, cosigned+ours),
		"extension lines are OPTIONAL and opaque":                 openSigned(t, "example.com/log", "3", "an extension\nand another\n"),
	} {
		t.Run(gist, func(t *testing.T) { require.NoError(t, err) })
	}
	for gist, c := range map[string]struct {
		err, want error
	}{
		"MUST reject a note without a signature from a known key":  {open(text, sameName+cosigned), proofs.ErrWrongKey},
		"SHOULD reject a note if a known key's signature fails":    {open(text, line(name, ourID, make([]byte, 64))), proofs.ErrSignature},
		"MUST verify the signature of a known key over the text":   {open(strings.Replace(text, "\n3\n", "\n4\n", 1), ours), proofs.ErrSignature},
		"a size has no leading zeroes":                             {openSigned(t, "example.com/log", "03", ""), proofs.ErrMalformed},
		"an origin MUST NOT be empty":                              {openSigned(t, "", "3", ""), proofs.ErrMalformed},
		"extension lines MUST NOT be empty":                        {openSigned(t, "example.com/log", "3", "\nan extension\n"), proofs.ErrMalformed},
		"MUST be UTF-8":                                            {open(text, "— \xff AAAA\n"+ours), proofs.ErrMalformed},
		"MUST NOT contain control characters":                      {open(text, strings.Replace(ours, " ", "\t", 1)), proofs.ErrMalformed},
		"MUST have key names without spaces and plus":              {open(text, strings.Replace(ours, name, name+"+", 1)), proofs.ErrMalformed},
		"a signature line ends with a newline":                     {open(text, strings.TrimSuffix(ours, "\n")), proofs.ErrMalformed},
		"a note has a blank line between text and signatures":      {open(strings.TrimSuffix(text, "\n"), ours), proofs.ErrMalformed},
		"the signature of one log does not make a note of another": {openSigned(t, "example.com/other", "3", ""), proofs.ErrWrongOrigin},
	} {
		t.Run(gist, func(t *testing.T) { require.ErrorIs(t, c.err, c.want) })
	}
}

// openSigned signs a checkpoint with the key of example.com/log and then opens it. The text has
// the given origin, size, and extensions, even if they are invalid.
func openSigned(t *testing.T, origin, size, extensions string) error {
	t.Helper()
	seed := [ed25519.SeedSize]byte{1}
	signer, err := proofs.NewKey(seed).Signer("example.com/log")
	require.NoError(t, err)
	root := sha256.Sum256(nil)
	text := origin + "\n" + size + "\n" + base64.StdEncoding.EncodeToString(root[:]) + "\n" + extensions
	signature := binary.BigEndian.AppendUint32(nil, signer.Verifier().KeyHash())
	signature = append(signature, ed25519.Sign(ed25519.NewKeyFromSeed(seed[:]), []byte(text))...)
	signed := text + "\n— example.com/log " + base64.StdEncoding.EncodeToString(signature) + "\n"
	checkpoint, err := proofs.OpenCheckpoint([]byte(signed), signer.Verifier())
	if err == nil {
		require.Equal(t, proofs.Checkpoint{Origin: origin, Size: 3, Root: root}, checkpoint)
	}
	return err
}
