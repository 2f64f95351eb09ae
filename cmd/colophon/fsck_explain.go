package main

import "colophon/proofs/audit"

// fsckWhatNow says what an operator can do about a finding of fsck. Kinds that it does not
// know are damage of the folder.
func fsckWhatNow(kind string) string {
	switch audit.Kind(kind) {
	case audit.KindRollback, audit.KindFork:
		return `keep the server stopped: this folder is not the last that was signed. Look for a later folder or
            backup, and read "The high-water mark" in docs/backup.md before you accept this one`
	case audit.KindSignature:
		return `see that --key, or the folder's keys, are of this ledger. If they are, the checkpoint was not written
            by this ledger: keep a copy of the folder, and restore the last backup that fsck finds clean`
	case audit.KindContent, audit.KindRedaction:
		return `keep a copy of the folder, and restore the last backup that fsck finds clean: the log names content
            that is missing, altered, or not erased. Then redact again what that backup is older than`
	case audit.KindEvent, audit.KindCheck, audit.KindKey:
		return `keep a copy of the folder, and do not start the server on it: the ledger has signed what no server
            records. No restore mends that if a backup has the entry too: find out who could use the signing key`
	}
	return `keep a copy of the folder, and restore the last backup that fsck finds clean: "A damaged log" in
            docs/operations.md. Look for the cause first, the disk for example`
}
