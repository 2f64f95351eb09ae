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

// Digest is what the keys of the ledgers sign: the SHA-256 of all else in the manifest.
func (m *Manifest) Digest() (proofs.Hash, error) {
	unsigned := *m
	unsigned.Note = ""
	text, err := json.Marshal(unsigned)
	return sha256.Sum256(text), err
}

// Sign has every ledger that has events vouch for the manifest, by the keys that sign its
// checkpoints. Unsigned names the ledgers whose keys are not at hand, and why.
func (m *Manifest) Sign(keys ledger.RotatingKeys) (unsigned []string, err error) {
	var signers []*proofs.Signer
	for _, l := range m.Ledgers {
		if l.Size == 0 {
			continue
		}
		present, err := keys.Load(l.Name)
		if err != nil {
			unsigned = append(unsigned, fmt.Sprintf("%s (%v)", l.Name, err))
			continue
		}
		signers = append(signers, present)
		others, err := keys.Others(l.Name)
		if err != nil {
			return nil, err
		}
		for _, other := range others { // the previous key, and the present one where a rotation came in between
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
	m.Note = string(note)
	return unsigned, err
}

// ErrNoAnchor: nothing at hand says which keys the server of a backup had.
var ErrNoAnchor = errors.New("no trusted key is at hand")

// Authenticate checks that a trusted key of every ledger with events vouches for the
// manifest: the server's keys were in one place, but a thief may have only one of them.
func (m *Manifest) Authenticate(trusted []*proofs.Verifier) error {
	if m.Note == "" {
		return errors.New("it is not signed")
	}
	digest, err := m.Digest()
	if err != nil {
		return err
	}
	var signed []*proofs.Verifier
	if len(trusted) > 0 {
		if signed, err = proofs.VerifyBackup([]byte(m.Note), digest, trusted...); err != nil {
			return err
		}
	}
	vouched := false
	for _, l := range m.Ledgers {
		if l.Size == 0 {
			continue
		}
		of := func(v *proofs.Verifier) bool { return v.Name() == l.Origin }
		switch {
		case slices.ContainsFunc(signed, of):
			vouched = true
		case slices.ContainsFunc(trusted, of):
			return fmt.Errorf("%w: no trusted key of ledger %q has signed it", proofs.ErrWrongKey, l.Name)
		default:
			return fmt.Errorf("%w for ledger %q", ErrNoAnchor, l.Name)
		}
	}
	if !vouched {
		return errors.New("it holds no ledger with events, and so nothing vouches for it")
	}
	return nil
}

// givenKeys reads the verifier keys that the operator gives.
func (o RestoreOptions) givenKeys(c *cli.Console) (list []*proofs.Verifier, err error) {
	for _, given := range o.Keys {
		keys, err := c.ReadKeys(given)
		if err != nil {
			return nil, err
		}
		list = append(list, keys...)
	}
	return list, nil
}

// keptKeys are of each ledger in a backup the verifier key of the newest signing key in the
// data folder. An older key there may be stolen: it counts only if the operator gives it.
// During a rotation both keys sign, so the newest is enough. Keys of the backup do not count.
func keptKeys(c *cli.Console, data string, m *Manifest) (list []*proofs.Verifier, err error) {
	kept := datadir.SigningKeys(c, data)
	for _, l := range m.Ledgers {
		signer, err := kept.Load(l.Name)
		if value, _ := c.Env(kept.Variable(l.Name)); errors.Is(err, storage.ErrNotFound) && strings.TrimSpace(value) != "" {
			signer, err = kept.Staged(l.Name) // the first of a variable, where no file says which has signed
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

// checkAuthentic refuses a backup that no trusted key has signed, unless the operator
// takes it as it is.
func (o RestoreOptions) checkAuthentic(c *cli.Console, m *Manifest, given []*proofs.Verifier) error {
	if o.Unauthenticated {
		c.Say("NOT AUTHENTICATED: nothing shows who made this backup, or whether it was changed")
		return nil
	}
	kept, err := keptKeys(c, o.Data, m)
	if err != nil {
		return err
	}
	err = m.Authenticate(append(kept, given...))
	const instead = "\nIf you are sure that nobody else could change the backup, pass --unauthenticated"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNoAnchor):
		return cli.Exitf(cli.ExitUsage, "the backup is not authenticated: %w. Give the ledger's verifier key with --key, or copy the signing keys to %s first%s",
			err, datadir.Keys(o.Data).Dir, instead)
	case errors.Is(err, proofs.ErrWrongKey):
		return cli.Exitf(cli.ExitFailed, "the backup is not authenticated: %w. If the key was rotated, give the key of the time of the backup with --key%s", err, instead)
	}
	return cli.Exitf(cli.ExitFailed, "the backup is not authenticated: %w%s", err, instead)
}

// sayUnsigned names the ledgers that do not vouch for a backup.
func sayUnsigned(c *cli.Console, unsigned []string) {
	if len(unsigned) > 0 {
		c.Say("the backup is not signed for %s: a restore cannot authenticate it. Run backup with the signing keys at hand", strings.Join(unsigned, ", "))
	}
}
