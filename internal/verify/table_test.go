package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"colophon/internal/cli"
	"colophon/internal/table"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// verifyExport verifies a file against a manifest of the given rows that the log has signed.
func verifyExport(t *testing.T, file []byte, format table.Format, rows ...string) error {
	t.Helper()
	signer, err := proofs.GenerateKey().Signer("log.example/a")
	require.NoError(t, err)
	var leaves []proofs.Hash
	for _, row := range rows {
		leaves = append(leaves, proofs.LeafHash([]byte(row)))
	}
	note, err := proofs.SignExport(&proofs.ExportManifest{
		Checkpoint: proofs.Checkpoint{Origin: signer.Origin(), Size: 1}, Question: "/records",
		RowCount: uint64(len(rows)), RowsRoot: proofs.RootOfLeaves(leaves), DigestWithoutRows: sha256.Sum256([]byte("{}")),
	}, signer)
	require.NoError(t, err)
	manifest, err := json.Marshal(table.NewManifest(format, string(note), []byte("{}"), leaves))
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, file, 0o600))
	require.NoError(t, os.WriteFile(name+table.ManifestSuffix, manifest, 0o600))
	c := cli.New(strings.NewReader(""), io.Discard, io.Discard, func(string) (string, bool) { return "", false })
	return Run(c, Options{File: name, Key: signer.Verifier().String()})
}

func rowsOf(n int, row string) table.Rows {
	return func() iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for i := 0; i < n && yield([]byte(row), nil); i++ {
			}
		}
	}
}

// A file next to a valid manifest is verified only if it is the file of that export.
func TestFilesOfOtherFormsAreRefused(t *testing.T) {
	const row = `{"seq":1}`
	require.NoError(t, verifyExport(t, []byte("seq,_row\n1,\"{\"\"seq\"\":1}\"\n"), table.FormatCSV, row))
	require.ErrorIs(t, verifyExport(t, []byte("seq,note,_row\n1,,\"{\"\"seq\"\":1}\"\n"), table.FormatCSV, row), ErrRowMismatch)
	require.NoError(t, verifyExport(t, []byte("_row\n"), table.FormatCSV))
	require.ErrorIs(t, verifyExport(t, []byte("\"The ledger\nhas no records.\",_row\n"), table.FormatCSV), ErrRowMismatch)

	html, err := pack.New("default", "2026-01-02T03:04:05Z", []string{}, nil).HTML()
	require.NoError(t, err)
	for _, format := range table.Formats {
		err := verifyExport(t, html, format)
		require.NotErrorIs(t, err, ErrRowMismatch)
		require.ErrorContains(t, err, "checkpoint", "the file must be verified as an audit pack")
	}
}

// verify stops reading a file that has many more rows than its manifest.
func TestRowsBeyondTheManifestAreNotRead(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, table.WriteRows(&file, table.FormatParquet, rowsOf(100_000, `{"seq":1}`)))
	err := verifyExport(t, file.Bytes(), table.FormatParquet, `{"seq":1}`)
	require.ErrorIs(t, err, ErrRowMismatch)
	require.ErrorContains(t, err, "row 2 (event 1) was added")
	read := 0
	err = checkRows(func(yield func([]byte, error) bool) {
		for yield([]byte(fmt.Sprint(read)), nil) {
			read++
		}
	}, []proofs.Hash{proofs.LeafHash([]byte("0"))})
	require.ErrorContains(t, err, "row 11 was added")
	require.Equal(t, 10, read)
}
