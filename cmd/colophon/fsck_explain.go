package main

import "colophon/proofs/audit"

// fsckWhatNow returns advice for the given kind of damage. It treats an unknown kind as damage to
// the folder as a whole.
func fsckWhatNow(kind string) string {
	switch audit.DamageKind(kind) {
	case audit.DamageKindRollback, audit.DamageKindFork:
		return `keep the server stopped: the ledger signed more than this folder holds. Look for a later folder or
            backup, and read "The high-water mark" in docs/backup.md before you accept this one`
	case audit.DamageKindSignature:
		return `check that --key, or the folder's keys, belong to this ledger. If they do, the ledger did not write the
            checkpoint: keep a copy of the folder, and restore the last backup that fsck finds clean`
	case audit.DamageKindContent, audit.DamageKindRedaction:
		return `keep a copy of the folder, and restore the last backup that fsck finds clean: the log names content
            that is missing, altered, or not erased. Then repeat the redactions that are newer than the backup`
	case audit.DamageKindEvent, audit.DamageKindCheck, audit.DamageKindKey:
		return `keep a copy of the folder, and do not start the server on it: the ledger signed an entry that no server
            writes. If a backup has the entry too, a restore does not help: find out who could use the signing key`
	}
	return `keep a copy of the folder, and restore the last backup that fsck finds clean: see "A damaged log" in
            docs/operations.md. First look for the cause, for example the disk`
}
