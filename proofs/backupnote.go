package proofs

import (
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"
)

// backupTitle is the first line of a backup note. Origins contain no spaces, so the note
// cannot be mistaken for a checkpoint. A handover begins with another title.
const backupTitle = "colophon backup manifest v1\n"

func backupText(digest Hash) string { return backupTitle + hex.EncodeToString(digest[:]) + "\n" }

// SignBackup returns a note about the manifest of a backup, signed with the keys of the
// server's ledgers. digest is the manifest's SHA-256.
func SignBackup(digest Hash, signers ...*Signer) ([]byte, error) {
	keys := make([]note.Signer, len(signers))
	for i, s := range signers {
		keys[i] = s.signer
	}
	signed, err := note.Sign(&note.Note{Text: backupText(digest)}, keys...)
	if err != nil {
		return nil, fmt.Errorf("sign backup note: %w", err)
	}
	return signed, nil
}

// VerifyBackup returns the verifiers that signed the backup note of the manifest with this
// digest. It returns ErrWrongKey if none of them signed, ErrSignature if a signature is
// invalid or the note is about another manifest, or ErrMalformed. It ignores bounds and
// conditions of the verifiers, since a backup has no size.
func VerifyBackup(signed []byte, digest Hash, verifiers ...*Verifier) ([]*Verifier, error) {
	if len(signed) > maxCheckpoint {
		return nil, fmt.Errorf("%w: the backup note has %d bytes, which is too long", ErrMalformed, len(signed))
	}
	known := knownKeys(verifiers)
	opened, err := note.Open(signed, known)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return nil, fmt.Errorf("%w: the backup is signed by %s, not by %s", ErrWrongKey, signatureNames(unverified.Note.UnverifiedSigs), known)
	case errors.As(err, new(*note.InvalidSignatureError)):
		return nil, fmt.Errorf("%w: the backup note was changed after it was signed", ErrSignature)
	case err != nil:
		return nil, fmt.Errorf("%w: backup note: %w", ErrMalformed, err)
	case opened.Text != backupText(digest):
		return nil, fmt.Errorf("%w: the backup note is about another manifest", ErrSignature)
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
