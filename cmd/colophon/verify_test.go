package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/proofs"
	"colophon/proofs/pack"
)

func TestEveryVerdictHasItsCode(t *testing.T) {
	codes := map[error]int{
		proofs.ErrMalformed: 10, proofs.ErrTooLong: 10, proofs.ErrWrongKey: 11, proofs.ErrOrigin: 11, proofs.ErrRetired: 11,
		proofs.ErrSignature: 12, proofs.ErrChainLink: 13, proofs.ErrInclusion: 14, proofs.ErrField: 15,
		errRecord: 16, proofs.ErrNoProof: 17, errRecomputed: 18, pack.ErrHashes: 18,
		proofs.ErrPath: 19, errText: 20, pack.ErrContent: 21, errReplacedKey: 22, errNotLater: 23,
	}
	require.Len(t, verdicts(), len(codes))
	for cause, code := range codes {
		var out bytes.Buffer
		err := reject(&console{out: &out}, verifyOptions{}, fmt.Errorf("in a test: %w", cause))
		var exit *exitError
		require.True(t, errors.As(err, &exit))
		require.Equal(t, code, exit.code, cause)
		require.ErrorIs(t, err, cause)
		require.Contains(t, verifyHelp, "\n  "+strconv.Itoa(code)+"  ")
	}
}

func TestKeysAreReadOneALine(t *testing.T) {
	var text strings.Builder
	for range 3 {
		signer, err := proofs.GenerateKey().Signer("ledger.example")
		require.NoError(t, err)
		fmt.Fprintf(&text, "\n  %s \r\n", signer.Verifier())
	}
	keys, err := parseKeys(text.String(), "test")
	require.NoError(t, err)
	require.Len(t, keys.keys, 3)
	_, err = parseKeys(text.String()+"nonsense\n", "test")
	require.ErrorContains(t, err, "nonsense")
}

// A key is a key even where somebody has made a file of its name.
func TestAKeyIsNoFileName(t *testing.T) {
	t.Chdir(t.TempDir())
	key := func() string {
		signer, err := proofs.GenerateKey().Signer("log.example/a")
		require.NoError(t, err)
		return signer.Verifier().String()
	}
	own, other := key(), key()
	for strings.HasSuffix(own, "/") { // one key in 64 could only name a folder
		own = key()
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, []byte(other), 0o600))
	keys, err := new(console).readKeys(own)
	require.NoError(t, err)
	require.Equal(t, own, keys[0].String())
}
