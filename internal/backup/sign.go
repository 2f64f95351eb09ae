package backup

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// Digest returns the hash that the ledgers' keys sign, which is the SHA-256 of the manifest with an
// empty SignedNote.
func (m *Manifest) Digest() (proofs.Hash, error) {
	unsigned := *m
	unsigned.SignedNote = ""
	text, err := json.Marshal(unsigned)
	return sha256.Sum256(text), err
}

// Sign signs the manifest with the keys that sign the checkpoints of its ledgers. No signature is
// made for a ledger without events. unsigned lists the ledgers whose keys are not available, each
// with the reason.
func (m *Manifest) Sign(keys ledger.RotatingKeyStore) (unsigned []string, err error) {
	var signers []*proofs.Signer
	for _, l := range m.Ledgers {
		if l.TreeSize == 0 {
			continue
		}
		present, err := keys.Load(l.Name)
		if err != nil {
			unsigned = append(unsigned, fmt.Sprintf("%s (%v)", l.Name, err))
			continue
		}
		signers = append(signers, present)
		others, err := keys.LoadOtherSigners(l.Name)
		if err != nil {
			return nil, err
		}
		for _, other := range others { // the previous key, or the current one if a rotation has just begun
			v := other.Verifier().String()
			if v != present.Verifier().String() && slices.Contains(l.signedBy, v) {
				signers = append(signers, other)
			}
		}
	}
	if len(signers) == 0 {
		return unsigned, nil
	}
	digest, err := m.Digest()
	if err != nil {
		return nil, err
	}
	note, err := proofs.SignBackup(digest, signers...)
	m.SignedNote = string(note)
	return unsigned, err
}

// ErrNoTrustedKey means that neither the flags nor the data folder provide a trusted key for one of
// the ledgers.
var ErrNoTrustedKey = errors.New("no trusted key")

// Authenticate checks that the manifest was signed with a trusted key of every ledger that has
// events. A signature by a single ledger's key is not enough, because an attacker may have stolen
// only that key.
func (m *Manifest) Authenticate(trusted []*proofs.Verifier) error {
	if m.SignedNote == "" {
		return errors.New("the backup is not signed")
	}
	digest, err := m.Digest()
	if err != nil {
		return err
	}
	var signed []*proofs.Verifier
	if len(trusted) > 0 {
		if signed, err = proofs.VerifyBackup([]byte(m.SignedNote), digest, trusted...); err != nil {
			return err
		}
	}
	vouched := false
	for _, l := range m.Ledgers {
		if l.TreeSize == 0 {
			continue
		}
		of := func(v *proofs.Verifier) bool { return v.Name() == l.Origin }
		switch {
		case slices.ContainsFunc(signed, of):
			vouched = true
		case slices.ContainsFunc(trusted, of):
			return fmt.Errorf("%w: no trusted key of ledger %q signed the backup", proofs.ErrWrongKey, l.Name)
		default:
			return fmt.Errorf("%w for ledger %q", ErrNoTrustedKey, l.Name)
		}
	}
	if !vouched {
		return errors.New("the backup has no ledger with events, so no key signed it")
	}
	return nil
}

// givenKeys reads the verifier keys that were given with --key.
func (o RestoreOptions) givenKeys(c *cli.Console) (list []*proofs.Verifier, err error) {
	for _, given := range o.TrustedKeys {
		keys, err := c.ReadCurrentKeys(given)
		if err != nil {
			return nil, err
		}
		list = append(list, keys...)
	}
	return list, nil
}

// keptKeys returns, for each ledger in the backup, the verifier key of the newest signing key in
// the data folder. An older key in that folder may have been stolen, so it is trusted only if it is
// given with --key. Both keys sign during a rotation, so checking the newest one is enough. Keys in
// the backup itself are not trusted.
func keptKeys(c *cli.Console, data string, m *Manifest) (list []*proofs.Verifier, err error) {
	kept := datadir.SigningKeys(c, data)
	for _, l := range m.Ledgers {
		signer, err := kept.Load(l.Name)
		if value, _ := c.LookupEnv(kept.VariableName(l.Name)); errors.Is(err, storage.ErrNotFound) && strings.TrimSpace(value) != "" {
			signer, err = kept.LoadStaged(l.Name) // no file records which key has signed, so use the first key in the variable
		}
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, signer.Verifier())
	}
	return list, nil
}

// checkAuthentic returns an error if the backup was not signed with the trusted keys, unless
// --unauthenticated is set.
func (o RestoreOptions) checkAuthentic(c *cli.Console, m *Manifest, given []*proofs.Verifier) error {
	if o.AllowUnauthenticated {
		c.PrintErrf("NOT AUTHENTICATED: no trusted key signed this backup, so someone may have changed or forged it")
		return nil
	}
	kept, err := keptKeys(c, o.DataFolder, m)
	if err != nil {
		return err
	}
	err = m.Authenticate(append(kept, given...))
	const instead = "\nIf you are sure that no other user could have changed the backup, pass --unauthenticated"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoTrustedKey):
		return cli.ExitErrorf(cli.ExitUsage, "the backup is not authenticated: %w. Give the ledger's verifier key with --key, or copy the signing keys to %s first%s",
			err, datadir.KeyFiles(o.DataFolder).Dir, instead)
	case errors.Is(err, proofs.ErrWrongKey):
		return cli.ExitErrorf(cli.ExitFailed, "the backup is not authenticated: %w. If the key was rotated, give the key that signed at the time of the backup with --key%s", err, instead)
	}
	return cli.ExitErrorf(cli.ExitFailed, "the backup is not authenticated: %w%s", err, instead)
}

// warnUnsigned prints a warning that names the ledgers for which a backup was not signed.
func warnUnsigned(c *cli.Console, unsigned []string) {
	if len(unsigned) > 0 {
		c.PrintErrf("the backup is not signed with the keys of %s, so restore cannot authenticate it; run backup with access to these signing keys", strings.Join(unsigned, ", "))
	}
}
