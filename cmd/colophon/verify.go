package main

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"colophon/proofs"
)

// verdict is one way in which verifying ends.
type verdict struct {
	code    int
	name    string // for scripts
	meaning string
	err     error // the cause that means this verdict
}

// errRecord: the record is not the one that the event is about. errRecomputed:
// it is, and the event says something else about it than it should.
var (
	errRecord     = errors.New("the record does not hash to the event")
	errRecomputed = errors.New("the event says something else than the record")
)

// verdicts are the ways in which verifying fails.
func verdicts() []verdict {
	return []verdict{
		{17, "no_proof", "a minimal receipt, which carries no proof; ask for it again: GET …/records/SEQ/receipt", proofs.ErrNoProof},
		{11, "wrong_key", "signed with another key than the one given, so it says nothing about that ledger", proofs.ErrWrongKey},
		{11, "wrong_key", "signed with the key given, but for a log of another origin", proofs.ErrOrigin},
		{12, "bad_signature", "the signature does not hold: the checkpoint was changed after it was signed", proofs.ErrSignature},
		{13, "broken_chain_link", "the event is not the one that the receipt's hashes stand for: event or hash was changed", proofs.ErrChainLink},
		{14, "broken_inclusion", "the event is not shown to be in the signed tree", proofs.ErrInclusion},
		{15, "wrong_field", "the receipt repeats the event wrongly", proofs.ErrField},
		{16, "wrong_record", "the event is about another record than this one", errRecord},
		{18, "wrong_checks", "the event is about this record, but what it says of it is not what comes out", errRecomputed},
		{10, "malformed", "not a receipt", proofs.ErrMalformed},
		{10, "malformed", "not a receipt", proofs.ErrTooLong},
	}
}

const verifyHelp = `Verify a receipt, without asking anybody: the signature of its checkpoint, the
event's link in the chain, its place in the signed tree, and every field. With
--record, that the record in FILE is the one that the event is about, and that
the event says of it what this program computes.

RECEIPT is a receipt in JSON or a .tlog-proof file. KEY is a verifier key as
serve prints it, or a file with it, one a line. FILE is the record as it was
posted, or its line {"kind": …, "record": …}. - is the standard input.

Exit codes:
   0  verified
   2  bad arguments, or a file cannot be read
  10  malformed: not a receipt
  11  wrong key: signed with another key, or for another log
  12  bad signature
  13  broken chain link: event, prev_event_hash, event_hash and leaf_hash disagree
  14  broken inclusion: the event is not in the signed tree
  15  a field disagrees with the event
  16  wrong record: the record does not hash to the event
  17  a minimal receipt, without proof
  18  wrong checks: of this record, something else comes out than the event says`

// verifyOptions is the command line of verify.
type verifyOptions struct {
	receipt, key, record string
	json                 bool
}

func newVerify(c *console) *cobra.Command {
	var o verifyOptions
	command := &cobra.Command{
		Use:   "verify RECEIPT --key KEY",
		Short: "Verify a receipt offline",
		Long:  verifyHelp,
		Example: `  colophon verify receipt.json --key verifier.key --record record.json
  curl -s localhost:8080/v1/ledgers/default/records/41/receipt | colophon verify - --key verifier.key`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.receipt = args[0]
			return verify(c, o)
		},
	}
	command.Flags().StringVar(&o.key, "key", c.environment("COLOPHON_KEY", ""), "verifier `key`, or a file with it, or COLOPHON_KEY")
	command.Flags().StringVar(&o.record, "record", "", "`file` with the record as it was posted")
	command.Flags().BoolVar(&o.json, "json", false, "print the outcome as JSON")
	return command
}

func (o verifyOptions) validate() error {
	if o.key == "" {
		return exitf(exitUsage, "--key is missing: give the ledger's verifier key, as serve prints it, or a file with it")
	}
	inputs := 0
	for _, name := range []string{o.receipt, o.key, o.record} {
		if name == "-" {
			inputs++
		}
	}
	if inputs > 1 {
		return exitf(exitUsage, "the standard input can be read only once")
	}
	return nil
}

func verify(c *console, o verifyOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	keys, err := c.readKeys(o.key)
	if err != nil {
		return err
	}
	text, err := c.readFile(o.receipt)
	if err != nil {
		return err
	}
	var posted []byte
	if o.record != "" {
		if posted, err = c.readFile(o.record); err != nil {
			return err
		}
	}
	r, err := verifyReceipt(text, keys)
	if err == nil && o.record != "" {
		err = verifyRecord(r.Proof.Event, posted)
	}
	if err != nil {
		return reject(c, o, err)
	}
	return accept(c, o, r, keys)
}

// readKeys reads the verifier key that is given, or the keys in the file named.
func (c *console) readKeys(given string) ([]*proofs.Verifier, error) {
	// A key is never taken for the name of a file: whoever sends a receipt could
	// send a file of that name with it.
	if _, err := proofs.ParseVerifier(given); err == nil {
		return parseKeys(given, "--key")
	}
	if _, err := os.Stat(given); err != nil && given != "-" {
		if !strings.Contains(given, "+") {
			return nil, exitf(exitUsage, "--key: %.100q is neither a file nor a verifier key", given)
		}
		return parseKeys(given, "--key (there is no such file)")
	}
	text, err := c.readFile(given)
	if err != nil {
		return nil, err
	}
	return parseKeys(string(text), given)
}

// parseKeys reads verifier keys, one a line. where names them in errors.
func parseKeys(text, where string) ([]*proofs.Verifier, error) {
	var keys []*proofs.Verifier
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if strings.HasPrefix(line, "PRIVATE+KEY+") {
			return nil, exitf(exitUsage, "%s: this is a signing key, which must stay secret; what is needed is the verifier key", where)
		}
		key, err := proofs.ParseVerifier(line)
		if err != nil {
			return nil, exitf(exitUsage, "%s: %.100q is no verifier key: %w", where, line, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, exitf(exitUsage, "%s: no verifier key in it", where)
	}
	return keys, nil
}

// verifyReceipt verifies a receipt of either form and returns it.
func verifyReceipt(text []byte, keys []*proofs.Verifier) (*proofs.Receipt, error) {
	if !bytes.HasPrefix(text, []byte("c2sp.org/tlog-proof@")) {
		r, err := proofs.ParseReceipt(text)
		if err != nil {
			return nil, err
		}
		return r, r.Verify(keys...)
	}
	p, err := proofs.ParseTlogProof(text)
	if err != nil {
		return nil, err
	}
	if err := p.Verify(keys...); err != nil {
		return nil, err
	}
	r, err := proofs.NewReceipt(p.Extra)
	if err != nil {
		return nil, err
	}
	r.Proof = &proofs.Proof{
		Event:      p.Extra[proofs.HashSize:],
		Inclusion:  proofs.Inclusion{LeafIndex: p.Index, Hashes: p.Hashes},
		Checkpoint: p.Checkpoint,
	}
	return r, nil
}
