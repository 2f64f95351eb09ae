package migrate

import (
	"iter"

	"colophon/storage"
)

// joinRedactions sets c.redactions to a function that reports whether the source has redacted a
// record. The function must be called with ascending seqs, because it reads the list of redactions
// only once, in parallel with the entries. The caller must call stop.
func (c *copier) joinRedactions() (stop func()) {
	next, stop := iter.Pull2(c.from.Redactions(c.ctx))
	var at storage.Redaction
	more := true
	step := func() (err error) {
		at, err, more = next()
		return err
	}
	begun := false
	c.redactions = func(seq uint64) (bool, error) {
		for more && (!begun || at.Seq < seq) {
			begun = true
			if err := step(); err != nil {
				return false, err
			}
		}
		return more && at.Seq == seq, nil
	}
	return stop
}
