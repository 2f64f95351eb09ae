package fields

import "colophon/ledger/record/pyjson"

// KeyRotation holds the fields of a key_rotated event (spec: The log).
type KeyRotation struct {
	Step []byte // "introduced" if the new key begins to sign, "retired" if the previous key stops
	// VerifierKey is the verifier key of the new signing key, and PreviousKey is that of the key
	// that it replaces.
	PreviousKey, VerifierKey []byte
	HandoverNote             []byte // nil if this step of the rotation has none
}

func (f *KeyRotation) appendRequest(w *pyjson.Builder) {
	w.AddText("handover", f.HandoverNote)
	w.AddText("previous_key", f.PreviousKey)
	w.AddText("step", f.Step)
	w.AddText("verifier_key", f.VerifierKey)
}

// Append implements Fields.
func (f *KeyRotation) Append(w *pyjson.Builder, c *CommonFields) {
	w.BeginObject()
	c.appendIdentity(w)
	f.appendRequest(w)
	w.EndObject()
}

// Check implements Fields.
func (f *KeyRotation) Check() error {
	var c forms
	for name, text := range map[string][]byte{"step": f.Step, "previous_key": f.PreviousKey, "verifier_key": f.VerifierKey} {
		c.required(name, text, MaxEntryBytes)
	}
	return c.err
}

// LedgerCreation holds the fields of a ledger_created event.
type LedgerCreation struct {
	// MemberSecretHash is the commitment to the payload-member secret of the ledger; nil if the
	// ledger has no such secret.
	MemberSecretHash []byte
	// Origin is the name of the log in its checkpoints. VerifierKey is the verifier key of the first
	// signing key.
	Origin, VerifierKey []byte
}

// Append implements Fields.
func (f *LedgerCreation) Append(w *pyjson.Builder, _ *CommonFields) {
	w.BeginSortedObject()
	w.AddText("member_secret_hash", f.MemberSecretHash)
	w.AddText("origin", f.Origin)
	w.AddText("verifier_key", f.VerifierKey)
	w.EndObject()
}

// Check implements Fields.
func (f *LedgerCreation) Check() error {
	var c forms
	c.hash("member_secret_hash", f.MemberSecretHash)
	c.required("origin", f.Origin, MaxEntryBytes)
	c.required("verifier_key", f.VerifierKey, MaxEntryBytes)
	return c.err
}
