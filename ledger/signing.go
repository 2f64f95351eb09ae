package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"colophon/ledger/highwater"
	"colophon/proofs"
	"colophon/storage"
)

// signing decides which keys sign a log, and whether anything is signed at all.
type signing struct {
	config       *Config
	name, origin string // name and origin of the ledger

	keys atomic.Pointer[keyring] // keys of the last durable state; only the sequencer writes it
	// refusal is the reason why the ledger must not sign: highwater.ErrRollback,
	// storage.ErrLeaseNotHeld, or a SigningError. It is nil if the ledger may sign. It is set before
	// clients can use the ledger.
	refusal error
}

// recover returns the keyring that signs the next commit of a log. The ledger signs nothing if the
// log's newest key is missing, if the configured key is newer than the log, or if a stored key does
// not belong to the log.
func (s *signing) recover(ctx context.Context, log storage.Reader) (*keyring, error) {
	history, err := ReadKeyHistory(ctx, log)
	if err != nil {
		return nil, err
	}
	if s.config.standby {
		return s.follow(history)
	}
	if history == nil && s.config.KeyErr != nil { // the log has no signature yet
		return nil, fmt.Errorf("%w, and the signing key is unavailable: %w", errNoFirstEvent, s.config.KeyErr)
	}
	if history == nil {
		history = proofs.NewKeyHistory(s.config.Signer.Verifier())
	}
	if origin := history.CurrentKey().Name(); origin != s.origin {
		return nil, fmt.Errorf("%w: the key's origin is %q, but the ledger's origin is %q", ErrDamaged, origin, s.origin)
	}
	ring := &keyring{history: history}
	if signer := s.config.Signer; signer != nil && signer.Origin() == s.origin && !history.Contains(signer.Verifier()) {
		s.refuse(fmt.Errorf("%w: the ledger has signed with the key %s, but the store does not contain this key; the store is older than the key or belongs to another ledger", highwater.ErrRollback, signer.Verifier()))
	} else if ring.signers, ring.refusal = s.signersOf(history); ring.signers == nil {
		s.refuseKeys(fmt.Sprintf("the signing key of ledger %s (verifier key %s) is missing or damaged. The operator must restore it to keys/%[1]s.key or to the environment variable %[3]s "+
			"and restart the server; if the key is lost, the ledger stays read-only: create a new ledger and freeze this one", s.name, history.CurrentKey(), KeyEnvVar(s.name)), s.config.KeyErr)
	} else if s.config.KeyErr != nil {
		s.refuseKeys(fmt.Sprintf("a signing key of ledger %s is invalid (in keys/%[1]s.key, with or without the suffix .previous or .next, or in the environment variable %[2]s); the server's log says which key. "+
			"The operator must restore the correct key, or remove the file, and restart the server", s.name, KeyEnvVar(s.name)), s.config.KeyErr)
	}
	s.use(ring)
	return ring, nil
}

// use makes a keyring that of the last durable state.
func (s *signing) use(ring *keyring) {
	s.keys.Store(ring)
	s.config.published.history.Store(ring.history)
}

// follow returns the keyring of a ledger that another server writes. s.refusal must be set already.
func (s *signing) follow(history *proofs.KeyHistory) (*keyring, error) {
	if history == nil {
		return nil, fmt.Errorf("%w: another server is creating the ledger", errNoFirstEvent)
	}
	ring := &keyring{history: history}
	s.use(ring)
	return ring, nil
}

// signersOf returns the signers of the keys that currently sign, or nil if the newest key is
// missing. refusal is ErrPreviousKeyMissing if the previous key must sign too but is missing.
func (s *signing) signersOf(history *proofs.KeyHistory) (signers []*proofs.Signer, refusal error) {
	newest := s.signerFor(history.CurrentKey())
	if newest == nil {
		return nil, nil
	}
	signers = append(signers, newest)
	overlapping := history.OverlappingKey()
	if overlapping == nil {
		return signers, nil
	}
	if before := s.signerFor(overlapping); before != nil {
		return append(signers, before), nil
	}
	refusal = fmt.Errorf("%w: restore %s to keys/%[3]s.key.previous, or to the environment variable that contains the newest key, and restart the server; if the key is lost, end the overlap with \"colophon keys retire %[3]s\"",
		ErrPreviousKeyMissing, overlapping, s.name)
	s.config.Logger.Error("refusing writes: a required signing key is missing", "error", refusal)
	return signers, refusal
}

// refuseUnreconciled makes the ledger stop signing because the stored keys could not be updated to
// match the log. A stored key may belong to a newer copy of the log.
func (s *signing) refuseUnreconciled(err error) {
	cause := "the key files could not be updated; the server's log says why"
	if errors.Is(err, ErrBadKey) {
		cause = err.Error()
	}
	s.refuseKeys(fmt.Sprintf("ledger %s: %s. The operator must fix the problem and restart the server", s.name, cause), err)
}

// refuseKeys makes the ledger stop signing because its keys do not match the log. It must be called
// before clients can use the ledger.
func (s *signing) refuseKeys(reason string, err error) {
	s.refusal = &SigningError{reason}
	s.config.Logger.Error("refusing writes: the signing keys are missing or invalid", "error", reason, "cause", err)
}

// refuse makes the ledger stop signing because its store does not contain everything that the
// ledger has signed. It must be called before clients can use the ledger.
func (s *signing) refuse(err error) {
	s.refusal = err
	s.config.Logger.Error("refusing writes: the store lacks data that the ledger has signed; restore a newer copy, or create a new ledger and freeze this one", "error", err)
}

// check returns the reason why the ledger does not sign, or nil if it does.
func (s *signing) check() error {
	if s.refusal != nil {
		return s.refusal
	}
	return s.keys.Load().refusal
}

// signerFor returns the configured signer of a key, or nil if no signer is configured for it.
func (s *signing) signerFor(key *proofs.Verifier) *proofs.Signer {
	for _, signer := range append([]*proofs.Signer{s.config.Signer}, s.config.OtherSigners...) {
		if signer != nil && signer.Verifier().String() == key.String() {
			return signer
		}
	}
	return nil
}
