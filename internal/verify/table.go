package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/table"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// ErrRowMismatch means that the rows of an exported file differ from the rows that the ledger
// signed.
var ErrRowMismatch = errors.New("the file's rows do not match the rows that the ledger signed")

// acceptedTable is the report on a verified export.
type acceptedTable struct {
	Verified bool   `json:"verified"`
	Code     int    `json:"code"` // exit code, always 0
	Origin   string `json:"origin"`
	TreeSize uint64 `json:"tree_size"`       // tree size of the answer
	Root     string `json:"root_hash"`       // root of the log's tree, in hexadecimal
	Question string `json:"question"`        // path of the query with its parameters
	Rows     uint64 `json:"rows"`            // number of rows
	Digest   string `json:"digest"`          // SHA-256 of the signed text
	Key      string `json:"key_fingerprint"` // fingerprint of the key that signed the manifest
	file     string
}

// manifestOf reads the manifest of an export, and also returns the name of the file that contains
// the rows. o.File can name either of the two files. If it names neither, m is nil. An audit pack is
// never an export, even if there is a file with the name of its manifest.
func manifestOf(c *cli.Console, o Options) (m *table.Manifest, rows string, err error) {
	rows, isManifest := strings.CutSuffix(o.File, table.ManifestSuffix)
	if !isManifest {
		if _, err := os.Stat(o.File + table.ManifestSuffix); err != nil || isPackFile(o.File) {
			return nil, "", nil
		}
	}
	text, err := c.ReadFileUpTo(rows+table.ManifestSuffix, cli.MaxManifestBytes)
	if err != nil {
		return nil, "", err
	}
	m, is, err := table.ParseManifest(text)
	if err == nil && !is {
		err = fmt.Errorf("%w: %s is not an export manifest", proofs.ErrMalformed, rows+table.ManifestSuffix)
	}
	return m, rows, err
}

// isPackFile reports whether a file begins like an audit pack.
func isPackFile(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	beginning, err := io.ReadAll(io.LimitReader(file, 1<<20)) // many times the part of the page before its data
	return err == nil && pack.IsPack(beginning)
}

// verifyTable verifies an exported file against its manifest.
func verifyTable(o Options, m *table.Manifest, name string, keys []*proofs.Verifier) (verified, error) {
	if err := o.rejectOtherFlags("an export"); err != nil {
		return nil, err
	}
	if o.OpenCopy != nil || o.LaterCheckpointFile != "" {
		return nil, cli.ExitErrorf(cli.ExitUsage, "--copy and --later cannot be used with an export")
	}
	signed, leaves, err := m.Verify(keys...)
	if errors.Is(err, proofs.ErrInclusion) {
		return nil, fmt.Errorf("%w: the manifest file was changed: %v", ErrRowMismatch, err)
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, cli.FileStateErrorf("%w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkRows(table.ReadRows(file, info.Size(), m.Format), leaves); err != nil {
		return nil, err
	}
	if err := table.CheckForm(file, info.Size(), m.Format); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRowMismatch, err)
	}
	digest := signed.Digest()
	return &acceptedTable{Verified: true, Origin: signed.Origin, TreeSize: signed.Size, Root: fmt.Sprintf("%x", signed.Root), Question: signed.Question,
		Rows: signed.RowCount, Digest: fmt.Sprintf("%x", digest), Key: exportFingerprint(m.SignedNote, keys), file: name}, nil
}

// mostRows is the maximum number of rows that an error lists.
const mostRows = 10

// checkRows checks that the rows of a file match the leaf hashes in its manifest. If they do not,
// its error wraps ErrRowMismatch and lists at most mostRows mismatched rows.
func checkRows(rows func(func([]byte, error) bool), leaves []proofs.Hash) error {
	var own []proofs.Hash
	var seqs []string // seqs of the rows, formatted for error messages
	var wrong []string
	for row, err := range rows {
		if unread := (*fs.PathError)(nil); errors.As(err, &unread) {
			return cli.FileStateErrorf("%w", err)
		}
		if err != nil && !errors.Is(err, table.ErrCellMismatch) {
			return fmt.Errorf("%w: %w", ErrRowMismatch, err)
		}
		own, seqs = append(own, proofs.LeafHash(row)), append(seqs, seqIn(row))
		if err != nil && len(wrong) < mostRows {
			wrong = append(wrong, fmt.Sprintf("row %d%s: %v", len(own), seqIn(row), err))
		}
		if len(own) >= len(leaves)+mostRows { // a small file can have any number of rows, and these are enough to name the first wrong ones
			break
		}
	}
	for _, d := range table.CompareRows(own, leaves, mostRows) {
		switch d.Kind {
		case "added":
			wrong = append(wrong, fmt.Sprintf("row %d%s was added", d.FileRow, seqs[d.FileRow-1]))
		case "removed":
			wrong = append(wrong, fmt.Sprintf("row %d of the signed export was removed", d.ManifestRow))
		case "moved":
			wrong = append(wrong, fmt.Sprintf("row %d%s was moved up", d.FileRow, seqs[d.FileRow-1]))
		default:
			wrong = append(wrong, fmt.Sprintf("row %d%s was changed; it corresponds to row %d of the signed export", d.FileRow, seqs[d.FileRow-1], d.ManifestRow))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n  %s", ErrRowMismatch, strings.Join(wrong[:min(mostRows, len(wrong))], "\n  "))
}

// seqIn returns the seq of a row in parentheses for messages, or "" if the row has none.
func seqIn(row []byte) string {
	var r struct {
		Seq *uint64 `json:"seq"`
	}
	if json.Unmarshal(row, &r) != nil || r.Seq == nil {
		return ""
	}
	return fmt.Sprintf(" (event %d)", *r.Seq)
}

// exportFingerprint returns the fingerprint of the key that signed a manifest.
func exportFingerprint(note string, keys []*proofs.Verifier) (found string) {
	for _, key := range keys {
		if _, err := proofs.OpenExport([]byte(note), key); err == nil {
			found = key.Fingerprint()
		}
	}
	return found
}

func (t *acceptedTable) print(c *cli.Console) error {
	_, err := fmt.Fprintf(c.Out, "VERIFIED: %s, %s\n  question    %s\n  in the log  %s, at tree size %d\n  signed by   key %s\n  digest      %s\n",
		t.file, cli.FormatCount(t.Rows, "row"), t.Question, t.Origin, t.TreeSize, t.Key, t.Digest)
	return err
}
