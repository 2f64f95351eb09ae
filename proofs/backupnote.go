package proofs

import (
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// backupTitle begins the text of a backup's note. No checkpoint and no handover begins
// so: a space is no part of an origin.
const backupTitle = "colophon backup manifest v1\n"

func backupText(digest Hash) string { return backupTitle + hex.EncodeToString(digest[:]) + "\n" }

// SignBackup makes the signed note in which the keys of a server's ledgers vouch for the
// manifest of a backup, by its SHA-256.
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

// VerifyBackup returns those of the verifiers that have signed the note of a manifest
// with that digest. The error is ErrWrongKey if there is none, ErrSignature or
// ErrMalformed. Bounds and conditions of the
// verifiers do not matter: a backup has no size.
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
		return nil, fmt.Errorf("%w: the note is of another manifest", ErrSignature)
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
