package proofs

import (
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// backupTitle begins the text of a backup's note. It contains spaces, and origins do not, so
// it cannot begin a checkpoint or a handover.
const backupTitle = "colophon backup manifest v1\n"

func backupText(digest Hash) string { return backupTitle + hex.EncodeToString(digest[:]) + "\n" }

// SignBackup returns a signed note in which the keys of a server's ledgers sign the manifest
// of a backup. digest is the manifest's SHA-256.
func SignBackup(digest Hash, signers ...*Signer) ([]byte, error) {
	keys := make([]note.Signer, len(signers))
	for i, s := range signers {
		keys[i] = s.signer
	}
	signed, err := note.Sign(&note.Note{Text: backupText(digest)}, keys...)
	if err != nil {
		return nil, fmt.Errorf("sign a backup: %w", err)
	}
	return signed, nil
}

// VerifyBackup returns the verifiers that have signed the backup note of the manifest with
// that digest. The error is ErrWrongKey if no verifier has signed, ErrSignature, or
// ErrMalformed. Bounds and conditions of the verifiers are ignored, since a backup has no
// size.
func VerifyBackup(signed []byte, digest Hash, verifiers ...*Verifier) ([]*Verifier, error) {
	if len(signed) > maxCheckpoint {
		return nil, fmt.Errorf("%w: note of a backup of %d bytes", ErrMalformed, len(signed))
	}
	known := knownKeys(verifiers)
	opened, err := note.Open(signed, known)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return nil, fmt.Errorf("%w: backup signed by %s, expected %s", ErrWrongKey, signatureNames(unverified.Note.UnverifiedSigs), known)
	case errors.As(err, new(*note.InvalidSignatureError)):
		return nil, fmt.Errorf("%w: the note of the backup was changed", ErrSignature)
	case err != nil:
		return nil, fmt.Errorf("%w: note of a backup: %w", ErrMalformed, err)
	case opened.Text != backupText(digest):
		return nil, fmt.Errorf("%w: the note signs another manifest", ErrSignature)
	}
	var list []*Verifier
	for _, s := range opened.Sigs {
		for _, v := range known {
			if v.Name() == s.Name && v.KeyHash() == s.Hash {
				list = append(list, v)
			}
		}
	}
	return list, nil
}
