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

	"colophon/internal/cli"
	"colophon/internal/verify"
	"colophon/proofs"
	"colophon/proofs/pack"
)

func TestEveryVerdictHasItsCode(t *testing.T) {
	codes := map[error]int{
		proofs.ErrMalformed: 10, proofs.ErrTooLong: 10, proofs.ErrWrongKey: 11, proofs.ErrWrongOrigin: 11, proofs.ErrRetiredKey: 11,
		proofs.ErrSignature: 12, proofs.ErrChainLink: 13, proofs.ErrInclusion: 14, proofs.ErrFieldMismatch: 15,
		verify.ErrRecordMismatch: 16, proofs.ErrNoProof: 17, verify.ErrValueMismatch: 18, pack.ErrHashMismatch: 18,
		proofs.ErrStagePath: 19, verify.ErrTextMismatch: 20, pack.ErrContentMismatch: 21, verify.ErrReplacedKey: 22, verify.ErrNotPrefix: 23, verify.ErrRowMismatch: 24,
	}
	require.Len(t, verify.FailureKinds(), len(codes))
	for cause, code := range codes {
		var out bytes.Buffer
		err := verify.ReportRejection(&cli.Console{Out: &out}, verify.Options{}, fmt.Errorf("in a test: %w", cause))
		var exit *cli.ExitError
		require.True(t, errors.As(err, &exit))
		require.Equal(t, code, exit.Code, cause)
		require.ErrorIs(t, err, cause)
		require.Contains(t, verifyHelp, "\n  "+strconv.Itoa(code)+"  ")
	}
}

func TestKeysAreReadOnePerLine(t *testing.T) {
	var text strings.Builder
	for range 3 {
		signer, err := proofs.GenerateKey().Signer("ledger.example")
		require.NoError(t, err)
		fmt.Fprintf(&text, "\n  %s \r\n", signer.Verifier())
	}
	keys, err := cli.ParseKeys(text.String(), "test")
	require.NoError(t, err)
	require.Len(t, keys.Keys, 3)
	_, err = cli.ParseKeys(text.String()+"nonsense\n", "test")
	require.ErrorContains(t, err, "line 7 is not a verifier key")
	require.NotContains(t, err.Error(), "nonsense")
}

// A verifier key that is given as an argument is used as a key even if a file of that name exists.
func TestKeysAreNotFileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	key := func() string {
		signer, err := proofs.GenerateKey().Signer("log.example/a")
		require.NoError(t, err)
		return signer.Verifier().String()
	}
	own, other := key(), key()
	for strings.HasSuffix(own, "/") { // one key in 64 ends with a slash, and therefore cannot be a file name
		own = key()
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o700))
	require.NoError(t, os.WriteFile(own, []byte(other), 0o600))
	keys, err := new(cli.Console).ReadCurrentKeys(own)
	require.NoError(t, err)
	require.Equal(t, own, keys[0].String())
}

// If a signing key is given where a verifier key is expected, it is rejected and does not appear in
// any output.
func TestSigningKeysAreNotShown(t *testing.T) {
	signer, err := proofs.GenerateKey().Signer("a.b")
	require.NoError(t, err)
	secret := signer.Secret()
	seed := strings.SplitN(secret, "+", 5)[4] // at most 5 parts, because the seed itself can contain a plus
	for _, text := range []string{secret, "signing key (secret)  " + secret, "\ufeff" + secret, secret + secret, secret[1:], secret[len("PRIVATE+KEY+"):], seed, "x\n" + seed + "\n"} {
		file := write(t, text)
		for _, given := range []string{file, text} {
			for _, command := range [][]string{
				{"verify", file, "--key", given}, {"fsck", "--data", t.TempDir(), "--key", given},
				{"audit", "http://127.0.0.1:1/v1/ledgers/default", "--key", given}, {"keys", "list", "default", "--server", "http://127.0.0.1:1", "--key", given},
			} {
				o := commandLine(t.Context(), command...)
				require.NotZero(t, o.code)
				require.NotContains(t, o.stdout+o.stderr, seed[:20], "%s", command[0])
			}
		}
	}
}
