package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"colophon/internal/cli"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/proofs"
)

// verifyReceipt verifies a JSON receipt or a tlog-proof. If --record names a file, verifyReceipt
// also verifies that the proven event describes the record in the file.
func verifyReceipt(c *cli.Console, o Options, text []byte, keys []*proofs.Verifier) (verified, error) {
	r, err := provenReceipt(c, o, text, keys)
	if err != nil {
		return nil, err
	}
	if o.RecordFile != "" {
		posted, err := c.ReadFile(o.RecordFile)
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
	a.RecordVerified = o.RecordFile != ""
	return a, nil
}

// provenReceipt returns the verified receipt in text. If text is a tlog-proof, it builds the
// receipt from the proof and its entry.
func provenReceipt(c *cli.Console, o Options, text []byte, keys []*proofs.Verifier) (*proofs.Receipt, error) {
	if !bytes.HasPrefix(text, []byte("c2sp.org/tlog-proof@")) {
		if err := o.rejectOtherFlags("a JSON receipt, which already contains the event", "record"); err != nil {
			return nil, err
		}
		r, err := proofs.ParseReceipt(text)
		if err != nil {
			return nil, explainRecord(text, err)
		}
		return r, r.Verify(keys...)
	}
	if err := o.rejectOtherFlags("a .tlog-proof", "record", "entry"); err != nil {
		return nil, err
	}
	p, err := proofs.ParseTlogProof(text)
	if err != nil {
		return nil, err
	}
	entry := p.Extra
	if o.EntryFile != "" {
		if entry, err = readEntry(c, o.EntryFile); err != nil {
			return nil, err
		}
	}
	if len(entry) == 0 {
		return nil, fmt.Errorf("%w: the .tlog-proof does not contain the entry; give the entry with --entry", proofs.ErrNoProof)
	}
	return p.VerifyEntry(entry, keys...)
}

// explainRecord is called if text cannot be parsed as a receipt. If text is a record or an event, it
// returns an error that explains how to get a receipt. Otherwise it returns err unchanged.
func explainRecord(text []byte, err error) error {
	var doc pyjson.Document
	if doc.ParseLimited(text, record.MaxValues) != nil || doc.Root().Kind() != pyjson.Object {
		return err
	}
	has := func(name string) bool { return doc.Root().Member(name).IsGiven() }
	seq, noSeq := strconv.ParseUint(string(doc.Root().Member("seq").Raw()), 10, 64)
	switch {
	case has("inclusion") || has("checkpoint") || has("ledger"): // a damaged receipt
		return err
	case noSeq == nil && has("event_hash"):
		return fmt.Errorf("%w: the file is a record, not a receipt; to get its receipt, run \"colophon receipt %d\" or request GET …/records/%[2]d/receipt", proofs.ErrMalformed, seq)
	case has("record") && has("kind"), has("payload"), has("dag"), has("inputs"), has("citations"), has("route"):
		return fmt.Errorf("%w: the file is a posted record, not a receipt; use the receipt from the response to the POST, or print it with \"colophon receipt\"; "+
			"to verify a receipt against this record, use --record", proofs.ErrMalformed)
	}
	return err
}

// readEntry reads an entry from a file. The file contains either the entry itself or the line that
// describes the entry in a response to GET …/events.
func readEntry(c *cli.Console, name string) ([]byte, error) {
	text, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var line struct {
		Entry []byte `json:"entry"`
	}
	// An entry begins with a hash, so the entry itself is never valid JSON.
	if json.Unmarshal(text, &line) == nil && line.Entry != nil {
		return line.Entry, nil
	}
	return text, nil
}
