package keystore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"colophon/ledger"
	"colophon/proofs"
	"colophon/storage"
)

// EnvKeys reads signing keys from environment variables, and from files for ledgers that have
// no variable. A variable contains every key that its ledger might need for signing, separated by
// white space. The log determines which of them sign. In the folder of the key files, NAME.vkey
// contains the verifier key of the last signer of a ledger.
type EnvKeys struct {
	KeyFiles
	Lookup func(name string) (string, bool) // behaves like os.LookupEnv
}

// VariableName returns the name of a ledger's environment variable.
func (EnvKeys) VariableName(name string) string {
	return ledger.KeyEnvVar(name)
}

// LastSignerPath returns the path of the file that records which key of a ledger's variable signed
// last.
func (k EnvKeys) LastSignerPath(name string) string {
	return strings.TrimSuffix(k.Path(name), ".key") + ".vkey"
}

// signers returns the signers in a ledger's variable, or nil if the variable is not set.
func (k EnvKeys) signers(name string) ([]*proofs.Signer, error) {
	value, _ := k.Lookup(k.VariableName(name))
	var list []*proofs.Signer
	for secret := range strings.FieldsSeq(value) {
		signer, err := proofs.ParseSigner(secret)
		if err != nil {
			return nil, fmt.Errorf("parsing the signing keys in %s: %w", k.VariableName(name), err)
		}
		list = append(list, signer)
	}
	if list == nil {
		return nil, nil
	}
	if _, err := os.Stat(k.Path(name)); err == nil {
		return nil, fmt.Errorf("ledger %q has signing keys in both %s and %s; remove one of them", name, k.VariableName(name), k.Path(name))
	}
	return list, nil
}

// Load implements ledger.KeyStore.
func (k EnvKeys) Load(name string) (*proofs.Signer, error) {
	list, err := k.signers(name)
	if err != nil {
		return nil, err
	}
	if list == nil {
		return k.KeyFiles.Load(name)
	}
	signed, err := readWhole(k.LastSignerPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", k.LastSignerPath(name), storage.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	for _, signer := range list {
		if signer.Verifier().String() == strings.TrimSpace(string(signed)) {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("%w: %s does not contain the key that signed last, which is recorded in %s; add that key", ledger.ErrBadKey, k.VariableName(name), pathInData(k.LastSignerPath(name)))
}

// LoadStaged implements ledger.KeyStore.
func (k EnvKeys) LoadStaged(name string) (*proofs.Signer, error) {
	list, err := k.signers(name)
	switch {
	case err != nil:
		return nil, err
	case list == nil:
		return k.KeyFiles.LoadStaged(name)
	}
	return list[0], nil
}

// ConfirmStaged implements ledger.KeyStore.
func (k EnvKeys) ConfirmStaged(name string) error {
	list, err := k.signers(name)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.ConfirmStaged(name)
	}
	return k.recordSigned(name, list[0].Verifier())
}

// recordSigned records durably which key signed last.
func (k EnvKeys) recordSigned(name string, key *proofs.Verifier) error {
	return writeWhole(k.LastSignerPath(name), []byte(key.String()+"\n"))
}

// LoadOtherSigners implements ledger.RotatingKeyStore.
func (k EnvKeys) LoadOtherSigners(name string) ([]*proofs.Signer, error) {
	list, err := k.signers(name)
	if err != nil || list != nil {
		return list, err
	}
	return k.KeyFiles.LoadOtherSigners(name)
}

// LoadNext implements ledger.RotatingKeyStore.
func (k EnvKeys) LoadNext(name string, keys *proofs.KeyHistory) (*proofs.Signer, error) {
	list, err := k.signers(name)
	switch {
	case err != nil:
		return nil, err
	case list == nil:
		return k.KeyFiles.LoadNext(name, keys)
	}
	for _, signer := range list {
		if !keys.Contains(signer.Verifier()) {
			return signer, nil
		}
	}
	return nil, fmt.Errorf("looking for the next key in %s: %w", k.VariableName(name), storage.ErrNotFound)
}

// StageNext implements ledger.RotatingKeyStore.
func (k EnvKeys) StageNext(name string, signer *proofs.Signer) error {
	list, err := k.signers(name)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.StageNext(name, signer)
	}
	return fmt.Errorf("adding a key to %s: %w", k.VariableName(name), ledger.ErrExternalKeys)
}

// Reconcile implements ledger.RotatingKeyStore.
func (k EnvKeys) Reconcile(name string, keys *proofs.KeyHistory) error {
	list, err := k.signers(name)
	switch {
	case err != nil:
		return err
	case list == nil:
		return k.KeyFiles.Reconcile(name, keys)
	}
	present, err := k.Load(name)
	if err == nil && present.Verifier().String() == keys.CurrentKey().String() {
		return nil
	}
	return k.recordSigned(name, keys.CurrentKey())
}
