package proofs

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// backupTitle and exportTitle are the first lines of backup notes and export manifests, which a
// ledger's keys sign in addition to checkpoints. A checkpoint begins with an origin, which contains
// no spaces, so neither can be mistaken for a checkpoint. Both titles differ from handoverTitle.
const (
	backupTitle = "colophon backup manifest v1\n"
	exportTitle = "colophon export manifest v1\n"
)

func backupText(digest Hash) string { return backupTitle + hex.EncodeToString(digest[:]) + "\n" }

// SignBackup returns a note about the manifest of a backup, signed with the keys of the
// server's ledgers. digest is the manifest's SHA-256.
func SignBackup(digest Hash, signers ...*Signer) ([]byte, error) {
	signed, err := signStatement(backupText(digest), signers)
	if err != nil {
		return nil, fmt.Errorf("signing the backup note: %w", err)
	}
	return signed, nil
}

// VerifyBackup returns the verifiers that signed the backup note for the manifest with the given
// digest. It returns ErrWrongKey if none of them signed, ErrSignature if a signature is invalid or
// the note is about a different manifest, and ErrMalformed if the note cannot be parsed. It ignores
// the bounds and conditions of the verifiers, because a backup has no tree size.
func VerifyBackup(signed []byte, digest Hash, verifiers ...*Verifier) ([]*Verifier, error) {
	text, by, err := openStatement("backup", signed, verifiers)
	switch {
	case err != nil:
		return nil, err
	case text != backupText(digest):
		return nil, fmt.Errorf("%w: the backup note belongs to a different manifest", ErrSignature)
	}
	return by, nil
}

// ExportManifest is a ledger's signed statement of its answer to a question at a given tree size
// (spec: Export manifests).
type ExportManifest struct {
	Checkpoint        // origin, tree size, and root of the log
	Question   string // path relative to the ledger's path, with the query parameters sorted by name
	RowCount   uint64 // number of rows in the answer
	// RowsRoot is the RFC 6962 root of the tree whose leaves are the rows. Each leaf is the JSON
	// text of a row exactly as it appears in the answer.
	RowsRoot Hash
	// DigestWithoutRows is the SHA-256 of the answer without its rows, as a JSON object with sorted
	// members.
	DigestWithoutRows Hash
}

// text returns the part of the manifest's note that is signed.
func (m *ExportManifest) text() string {
	line := base64.StdEncoding.EncodeToString
	return exportTitle + m.Checkpoint.text() + m.Question + "\n" + strconv.FormatUint(m.RowCount, 10) + "\n" + line(m.RowsRoot[:]) + "\n" + line(m.DigestWithoutRows[:]) + "\n"
}

// Digest returns the SHA-256 of the signed text. Two servers that give the same answer at the same
// tree size produce the same digest, even if their signatures differ.
func (m *ExportManifest) Digest() Hash { return sum([]byte(m.text()), nil) }

// SignExport returns an export manifest as a signed note. It returns ErrWrongOrigin if a signer's
// origin is not the manifest's, and ErrMalformed if the question is empty or has more than one
// line.
func SignExport(m *ExportManifest, signers ...*Signer) ([]byte, error) {
	if m.Question == "" || strings.ContainsAny(m.Question, "\n\r") {
		return nil, fmt.Errorf("%w: the question %.100q is empty or has more than one line", ErrMalformed, m.Question)
	}
	for _, s := range signers {
		if s.Origin() != m.Origin {
			return nil, fmt.Errorf("%w: the manifest's origin is %.100q, but the signer's origin is %.100q", ErrWrongOrigin, m.Origin, s.Origin())
		}
	}
	signed, err := signStatement(m.text(), signers)
	if err != nil {
		return nil, fmt.Errorf("signing the export manifest: %w", err)
	}
	return signed, nil
}

// OpenExport parses and verifies the signed note of an export manifest. It returns ErrWrongKey if
// none of the verifiers signed, ErrSignature if a signature is invalid, and ErrMalformed if the
// note does not have the form that SignExport writes. It returns ErrWrongOrigin if the verifiers
// that signed have a different origin than the manifest. If the origin is correct, it returns
// ErrRetiredKey if the key was retired at a smaller size than the manifest's, or the error from the
// verifier's condition.
func OpenExport(signed []byte, verifiers ...*Verifier) (*ExportManifest, error) {
	text, by, err := openStatement("export manifest", signed, verifiers)
	if err != nil {
		return nil, err
	}
	m, err := parseExport(text)
	if err != nil {
		return nil, err
	}
	refusal := fmt.Errorf("%w: the export manifest's origin is %.100q, but the key that signed it belongs to a different origin", ErrWrongOrigin, m.Origin)
	for _, v := range by {
		if v.Name() != m.Origin {
			continue
		}
		if refusal = v.checkBounds(m.Checkpoint); refusal == nil {
			return m, nil
		}
	}
	return nil, refusal
}

// parseExport parses the signed part of an export manifest's note.
func parseExport(text string) (*ExportManifest, error) {
	body, is := strings.CutPrefix(text, exportTitle)
	lines := strings.Split(body, "\n")
	if !is || len(lines) != 8 {
		return nil, fmt.Errorf("%w: the note does not have the 8 lines of an export manifest", ErrMalformed)
	}
	checkpoint, err := parseCheckpoint(strings.Join(lines[:3], "\n") + "\n")
	if err != nil {
		return nil, err
	}
	m := &ExportManifest{Checkpoint: checkpoint, Question: lines[3]}
	if m.RowCount, err = strconv.ParseUint(lines[4], 10, 64); err != nil {
		return nil, fmt.Errorf("%w: parsing the number of rows: %w", ErrMalformed, err)
	}
	for i, to := range []*Hash{&m.RowsRoot, &m.DigestWithoutRows} {
		h, err := base64.StdEncoding.DecodeString(lines[5+i])
		if err != nil || len(h) != HashSize {
			return nil, fmt.Errorf("%w: the export manifest has %.100q in place of a hash", ErrMalformed, lines[5+i])
		}
		*to = Hash(h)
	}
	if m.text() != text {
		return nil, fmt.Errorf("%w: the export manifest is not in canonical form", ErrMalformed)
	}
	return m, nil
}

// VerifyRows returns ErrInclusion unless the manifest covers exactly the given rows and the given
// rest of the answer. leaves contains the leaf hashes of the rows in order. rest is the answer
// without its rows.
func (m *ExportManifest) VerifyRows(leaves []Hash, rest []byte) error {
	switch {
	case uint64(len(leaves)) != m.RowCount:
		return fmt.Errorf("%w: the export has %d rows, but the signed manifest covers %d", ErrInclusion, len(leaves), m.RowCount)
	case RootOfLeaves(leaves) != m.RowsRoot:
		return fmt.Errorf("%w: the rows do not match the signed manifest", ErrInclusion)
	case sum(rest, nil) != m.DigestWithoutRows:
		return fmt.Errorf("%w: the parts of the export other than its rows do not match the signed manifest", ErrInclusion)
	}
	return nil
}

// RootOfLeaves returns the RFC 6962 root of the tree with the given leaf hashes.
func RootOfLeaves(leaves []Hash) Hash {
	tree, err := OpenTree(0, nil, nil)
	if err != nil {
		panic(err) // cannot happen: OpenTree reads nothing for an empty tree
	}
	for _, leaf := range leaves {
		tree.Append(leaf)
		tree.TakeDirtyTiles() // discard the completed tiles
	}
	return tree.Root()
}

func signStatement(text string, signers []*Signer) ([]byte, error) {
	keys := make([]note.Signer, len(signers))
	for i, s := range signers {
		keys[i] = s.signer
	}
	return note.Sign(&note.Note{Text: text}, keys...)
}

// openStatement returns the text of a signed note and the verifiers that signed it. what describes
// the note in error messages.
func openStatement(what string, signed []byte, verifiers []*Verifier) (text string, by []*Verifier, err error) {
	if len(signed) > maxCheckpoint {
		return "", nil, fmt.Errorf("%w: the signed note of the %s is too long: %d bytes", ErrMalformed, what, len(signed))
	}
	known := knownKeys(verifiers)
	opened, err := note.Open(signed, known)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return "", nil, fmt.Errorf("%w: the %s is signed by %s, not by %s", ErrWrongKey, what, signatureNames(unverified.Note.UnverifiedSigs), known)
	case errors.As(err, new(*note.InvalidSignatureError)):
		return "", nil, fmt.Errorf("%w: the %s was changed after it was signed", ErrSignature, what)
	case err != nil:
		return "", nil, fmt.Errorf("%w: parsing the signed note of the %s: %w", ErrMalformed, what, err)
	}
	for _, s := range opened.Sigs {
		for _, v := range known {
			if v.Name() == s.Name && v.KeyHash() == s.Hash {
				by = append(by, v)
			}
		}
	}
	return opened.Text, by, nil
}
