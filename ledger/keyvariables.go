package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"colophon/proofs"
	"colophon/storage"
)

// KeyVariables takes signing keys from environment variables, and from files for ledgers that
// have no variable. A variable holds all keys of its ledger that may have to sign, separated
// by white space; the log decides which of them do. In the folder of the key files, NAME.vkey
// holds the newest verifier key of a ledger that has signed.
type KeyVariables struct {
	KeyFiles
	Lookup func(name string) (string, bool) // like os.LookupEnv
}

// Variable returns the name of a ledger's environment variable.
func (KeyVariables) Variable(ledger string) string {
	return "COLOPHON_SIGNING_KEY_" + strings.ToUpper(strings.ReplaceAll(ledger, "-", "_"))
}

// SignedPath returns the path of the file that records which key of a ledger's variable signed
// last.
func (k KeyVariables) SignedPath(ledger string) string {
	return strings.TrimSuffix(k.Path(ledger), ".key") + ".vkey"
}

// signers returns the signers in a ledger's variable, or nil if the variable is not set.
func (k KeyVariables) signers(ledger string) ([]*proofs.Signer, error) {
	value, _ := k.Lookup(k.Variable(ledger))
	var list []*proofs.Signer
	for secret := range strings.FieldsSeq(value) {
		signer, err := proofs.ParseSigner(secret)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Variable(ledger), err)
		}
		list = append(list, signer)
	}
	if list == nil {
		return nil, nil
	}
	if _, err := os.Stat(k.Path(ledger)); err == nil {
		return nil, fmt.Errorf("ledger %q has a signing key in %s and one in %s; remove one of them", ledger, k.Variable(ledger), k.Path(ledger))
	}
	return list, nil
}

// Load implements Keys.
func (k KeyVariables) Load(ledger string) (*proofs.Signer, error) {
	list, err := k.signers(ledger)
	if err != nil {
		return nil, err
	}
	if list == nil {
		return k.KeyFiles.Load(ledger)
	}
	signed, err := readWhole(k.SignedPath(ledger))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", k.SignedPath(ledger), storage.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	for _, signer := range list {
		if signer.Verifier().String() == strings.TrimSpace(string(signed)) {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("%w: %s does not hold the key of %s, which signed last: add that key", errBadKey, k.Variable(ledger), pathInData(k.SignedPath(ledger)))
}

// Staged implements Keys.
func (k KeyVariables) Staged(ledger string) (*proofs.Signer, error) {
	list, err := k.signers(ledger)
	switch {
	case err != nil:
		return nil, err
	case list == nil:
		return k.KeyFiles.Staged(ledger)
	}
	return list[0], nil
}

// Confirm implements Keys.
func (k KeyVariables) Confirm(ledger string) error {
	list, err := k.signers(ledger)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.Confirm(ledger)
	}
	return k.recordSigned(ledger, list[0].Verifier())
}

// recordSigned records durably which key signed last.
func (k KeyVariables) recordSigned(ledger string, key *proofs.Verifier) error {
	return writeWhole(k.SignedPath(ledger), []byte(key.String()+"\n"))
}

// Others implements RotatingKeys.
func (k KeyVariables) Others(ledger string) ([]*proofs.Signer, error) {
	list, err := k.signers(ledger)
	if err != nil || list != nil {
		return list, err
	}
	return k.KeyFiles.Others(ledger)
}

// Next implements RotatingKeys.
func (k KeyVariables) Next(ledger string, keys *proofs.KeyHistory) (*proofs.Signer, error) {
	list, err := k.signers(ledger)
	switch {
	case err != nil:
		return nil, err
	case list == nil:
		return k.KeyFiles.Next(ledger, keys)
	}
	for _, signer := range list {
		if !keys.Trusts(signer.Verifier()) {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", k.Variable(ledger), storage.ErrNotFound)
}

// StageNext implements RotatingKeys.
func (k KeyVariables) StageNext(ledger string, signer *proofs.Signer) error {
	list, err := k.signers(ledger)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.StageNext(ledger, signer)
	}
	return fmt.Errorf("%s: %w", k.Variable(ledger), ErrKeysFixed)
}

// Reconcile implements RotatingKeys.
func (k KeyVariables) Reconcile(ledger string, keys *proofs.KeyHistory) error {
	list, err := k.signers(ledger)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.Reconcile(ledger, keys)
	}
	present, err := k.Load(ledger)
	if err == nil && present.Verifier().String() == keys.Current().String() {
		return nil
	}
	return k.recordSigned(ledger, keys.Current())
}
