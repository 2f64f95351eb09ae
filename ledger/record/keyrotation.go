package record

// NewKeyRotation is the verb that changes the signing key of the ledger (spec: Key rotation):
// step, the verifier keys of the one that is replaced and of the one that follows it, and
// where the step has one the note in which they say so. All are valid UTF-8.
func NewKeyRotation(step, previous, next string, handover []byte) *Verb {
	return newVerb(KeyRotated, &RotationFields{Step: []byte(step), PreviousKey: []byte(previous), VerifierKey: []byte(next), Handover: handover})
}
