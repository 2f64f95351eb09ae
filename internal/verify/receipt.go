package verify

import (
	"bytes"
	"encoding/json"
	"fmt"

	"colophon/internal/cli"
	"colophon/proofs"
)

// verifyReceipt verifies a receipt in JSON or a tlog-proof, and the record of --record if that
// flag is set.
func verifyReceipt(c *cli.Console, o Options, text []byte, keys []*proofs.Verifier) (verified, error) {
	r, err := provenReceipt(c, o, text, keys)
	if err != nil {
		return nil, err
	}
	if o.Record != "" {
		posted, err := c.ReadFile(o.Record)
		if err != nil {
			return nil, err
		}
		if err := verifyRecord(r.Proof.Event, posted); err != nil {
			return nil, err
		}
	}
	a, err := newAccepted(r, keys)
	if err != nil {
		return nil, err
	}
	a.RecordVerified = o.Record != ""
	return a, nil
}

// provenReceipt returns the verified receipt in a text, or one made from a tlog-proof and its
// entry.
func provenReceipt(c *cli.Console, o Options, text []byte, keys []*proofs.Verifier) (*proofs.Receipt, error) {
	if !bytes.HasPrefix(text, []byte("c2sp.org/tlog-proof@")) {
		if err := o.only("a receipt in JSON, which has the event in it", "record"); err != nil {
			return nil, err
		}
		r, err := proofs.ParseReceipt(text)
		if err != nil {
			return nil, err
		}
		return r, r.Verify(keys...)
	}
	if err := o.only("a .tlog-proof", "record", "entry"); err != nil {
		return nil, err
	}
	p, err := proofs.ParseTlogProof(text)
	if err != nil {
		return nil, err
	}
	entry := p.Extra
	if o.Entry != "" {
		if entry, err = readEntry(c, o.Entry); err != nil {
			return nil, err
		}
	}
	if len(entry) == 0 {
		return nil, fmt.Errorf("%w: a .tlog-proof without the entry; give the entry with --entry", proofs.ErrNoProof)
	}
	return p.VerifyEntry(entry, keys...)
}

// readEntry reads an entry from a file. The file holds the entry itself or its line in a response
// to GET …/events.
func readEntry(c *cli.Console, name string) ([]byte, error) {
	text, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var line struct {
		Entry []byte `json:"entry"`
	}
	// An entry begins with a hash, so it is not JSON as a whole.
	if json.Unmarshal(text, &line) == nil && line.Entry != nil {
		return line.Entry, nil
	}
	return text, nil
}
