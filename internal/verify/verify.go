// Package verify verifies receipts, nested proofs, audit packs, and exports offline, with keys that the
// user trusts. It reports what a file proves, and which of its members no proof covers.
package verify

import (
	"errors"
	"fmt"
	"slices"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// FailureKind is one of the ways in which a verification can fail.
type FailureKind struct {
	ExitCode int    // exit code of the verify command
	name     string // machine-readable
	meaning  string
	err      error // errors of this kind wrap this error
}

var (
	// ErrRecordMismatch means that the event describes another record.
	ErrRecordMismatch = errors.New("the record does not match the event")
	// ErrValueMismatch means that the event describes the record, but contains values that do not
	// follow from it.
	ErrValueMismatch = errors.New("the event's values do not match the values computed from the record")
	// ErrTextMismatch means that a text does not have the hash that a nested proof proves.
	ErrTextMismatch = errors.New("the text does not match the recorded hash")
)

// FailureKinds lists the ways in which a verification can fail, with their exit codes.
func FailureKinds() []FailureKind {
	return []FailureKind{
		{17, "no_proof", "a minimal receipt, which carries no proof; request it again: GET …/records/SEQ/receipt", proofs.ErrNoProof},
		{11, "wrong_key", "the file is signed with a key other than the given key, so the file proves nothing about the given key's ledger", proofs.ErrWrongKey},
		{11, "wrong_key", "the file is signed with a key that the log had already retired, so the file proves nothing about the ledger", proofs.ErrRetiredKey},
		{11, "wrong_key", "the file is signed with the given key, but for a log that has a different origin", proofs.ErrWrongOrigin},
		{22, "replaced_key", "the file is signed only with a key that has been replaced: someone who has stolen the key since then could have made the file", ErrReplacedKey},
		{23, "not_in_later_tree", "the checkpoint's tree is not the beginning of the later tree: one of the two trees was forged, or the log has shown two different trees", ErrNotPrefix},
		{12, "bad_signature", "the signature is not valid: the checkpoint was changed after it was signed", proofs.ErrSignature},
		{13, "broken_chain_link", "the event does not match the hashes of the receipt: the event or a hash was changed", proofs.ErrChainLink},
		{14, "broken_inclusion", "the proof does not show that the event is in the signed tree", proofs.ErrInclusion},
		{15, "wrong_field", "a value in the receipt or the file does not match the event", proofs.ErrFieldMismatch},
		{16, "wrong_record", "the event is about a different record", ErrRecordMismatch},
		{18, "wrong_checks", "the event is about this record, but has values that do not follow from it", ErrValueMismatch},
		{18, "wrong_checks", "the event has values that do not follow from its content", pack.ErrHashMismatch},
		{19, "broken_path", "the proof does not show that the stage is in the tree of its run", proofs.ErrStagePath},
		{20, "wrong_text", "the text is not the one that was recorded", ErrTextMismatch},
		{21, "wrong_content", "the content in the pack does not match the events in the pack", pack.ErrContentMismatch},
		{24, "wrong_rows", "rows of the exported file were changed, added, or removed", ErrRowMismatch},
		{10, "malformed", "the file is not a valid receipt, nested proof, audit pack, or export manifest", proofs.ErrMalformed},
		{10, "malformed", "the file is not a valid receipt, nested proof, audit pack, or export manifest", proofs.ErrTooLong},
	}
}

// Options holds the flags of the verify command. A file name may be "-" for standard input.
type Options struct {
	// File is the file to verify. Key is a verifier key, or the name of a file that contains one. The other
	// files contain the record of the event, the entry of a .tlog-proof, the text of a stage or citation, and
	// a later checkpoint with a consistency proof. All except File and Key may be empty.
	File, Key, RecordFile, EntryFile, TextFile, LaterCheckpointFile string
	// JSON makes Run print the result as JSON.
	JSON bool
	// OpenCopy uses the trusted keys to open the published copy of the log to verify against. It is nil if
	// there is no copy.
	OpenCopy func(trusted []*proofs.Verifier) (*PublishedCopy, error)
}

func (o Options) validate() error {
	if o.Key == "" {
		return cli.ExitErrorf(cli.ExitUsage, "--key is required: give the ledger's verifier key, which \"colophon serve\" prints, or the name of a file that contains the key")
	}
	if o.OpenCopy != nil && o.LaterCheckpointFile != "" {
		return cli.ExitErrorf(cli.ExitUsage, "give --copy or --later, but not both: the copy already contains a later checkpoint")
	}
	inputs := 0
	for _, name := range []string{o.File, o.Key, o.RecordFile, o.EntryFile, o.TextFile, o.LaterCheckpointFile} {
		if name == "-" {
			inputs++
		}
	}
	if inputs > 1 {
		return cli.ExitErrorf(cli.ExitUsage, "standard input can be read only once; give \"-\" for only one file")
	}
	return nil
}

// rejectOtherFlags returns an error if --record, --entry, or --text is set but is not in allowed. what
// describes the kind of file for the error message.
func (o Options) rejectOtherFlags(what string, allowed ...string) error {
	for flag, value := range map[string]string{"record": o.RecordFile, "entry": o.EntryFile, "text": o.TextFile} {
		if value != "" && !slices.Contains(allowed, flag) {
			return cli.ExitErrorf(cli.ExitUsage, "--%s cannot be used with %s", flag, what)
		}
	}
	return nil
}

type verified interface {
	print(c *cli.Console) error
}

// Run verifies the file, and prints what it proves. If verification fails, the error has the exit
// code of a FailureKind.
func Run(c *cli.Console, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	keys, err := verifyingKeys(c, o)
	if err != nil {
		return err
	}
	var proved verified
	var text []byte
	manifest, rows, err := manifestOf(c, o)
	if err == nil && manifest == nil {
		if text, err = c.ReadFileUpTo(o.File, cli.MaxPackBytes); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
	case manifest != nil:
		proved, err = verifyTable(o, manifest, rows, keys)
	case pack.IsPack(text):
		proved, err = verifyPack(o, text, keys)
	case len(text) > cli.MaxFileBytes:
		err = fmt.Errorf("%w: the file is longer than %d bytes, but is not an audit pack", proofs.ErrMalformed, cli.MaxFileBytes)
	case proofs.IsNestedProof(text):
		proved, err = verifyNested(c, o, text, keys)
	default:
		proved, err = verifyReceipt(c, o, text, keys)
	}
	switch {
	case err != nil:
		return ReportRejection(c, o, afterRotation(err))
	case o.JSON:
		return cli.PrintAsJSON(c, proved)
	}
	return proved.print(c)
}
