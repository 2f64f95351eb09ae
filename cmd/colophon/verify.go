package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/proofs"
	"colophon/proofs/pack"
)

// verdict is one way in which verifying ends.
type verdict struct {
	code    int
	name    string // for scripts
	meaning string
	err     error // the cause that means this verdict
}

// errRecord: the record is not the one that the event is about. errRecomputed:
// it is, and the event says something else about it than it should. errText: the
// text is not the one of the part that is proved.
var (
	errRecord     = errors.New("the record does not hash to the event")
	errRecomputed = errors.New("the event says something else than the record")
	errText       = errors.New("the text does not hash to the part")
)

// verdicts are the ways in which verifying fails.
func verdicts() []verdict {
	return []verdict{
		{17, "no_proof", "a minimal receipt, which carries no proof; ask for it again: GET …/records/SEQ/receipt", proofs.ErrNoProof},
		{11, "wrong_key", "signed with another key than the one given, so it says nothing about that ledger", proofs.ErrWrongKey},
		{11, "wrong_key", "signed with a key of the log that had been retired before, so it says nothing about that ledger", proofs.ErrRetired},
		{11, "wrong_key", "signed with the key given, but for a log of another origin", proofs.ErrOrigin},
		{22, "replaced_key", "signed only with a key that has been replaced: someone who has stolen that key since could have made it", errReplacedKey},
		{23, "not_in_later_tree", "the tree that the checkpoint signs is not the beginning of the later one: one of the two was forged, or the log has shown two trees", errNotLater},
		{12, "bad_signature", "the signature does not hold: the checkpoint was changed after it was signed", proofs.ErrSignature},
		{13, "broken_chain_link", "the event is not the one that the receipt's hashes stand for: event or hash was changed", proofs.ErrChainLink},
		{14, "broken_inclusion", "the event is not shown to be in the signed tree", proofs.ErrInclusion},
		{15, "wrong_field", "the receipt or the file repeats the event wrongly", proofs.ErrField},
		{16, "wrong_record", "the event is about another record than this one", errRecord},
		{18, "wrong_checks", "the event is about this record, but what it says of it is not what comes out", errRecomputed},
		{18, "wrong_checks", "the event says something else of its content than what comes out", pack.ErrHashes},
		{19, "broken_path", "the stage is not shown to be in the tree of its run", proofs.ErrPath},
		{20, "wrong_text", "the text is not the one that was recorded", errText},
		{21, "wrong_content", "the content in the pack is not what the event names", pack.ErrContent},
		{10, "malformed", "not a receipt, a nested proof or an audit pack", proofs.ErrMalformed},
		{10, "malformed", "not a receipt, a nested proof or an audit pack", proofs.ErrTooLong},
	}
}

const verifyHelp = `Verify a file without asking anybody: the signature of its checkpoint, each event's
link in the chain and its place in the signed tree, every field. FILE is

  a receipt in JSON, or a .tlog-proof file. With --record, the record in that file is
      the one that the event is about, and the event says of it what this program
      computes. A .tlog-proof without the entry takes it from --entry: the entry
      itself, or its line of GET …/events.
  a nested proof, as colophon prove and GET …/proof make it. With --text, the text in
      that file is the one of the stage or citation; a text in the proof is always
      checked.
  an audit pack, as colophon export makes it. Its page is never run.

The report names the members that the proof covers, and those that it does not: facts
that follow from other events (drift, category, …), replayed, and unknown members are
the server's word alone.

KEY is a verifier key as serve prints it, a file with some, one a line, or a file with
all keys of a log, as "colophon keys list NAME --key KEY --json" checks and prints them. Of
such a file only the newest key counts by itself: a key that was replaced may have been
stolen since. What an older one alone has signed needs --later, a file with the answer of
GET …/proofs/consistency?first=TREE_SIZE, which shows that its tree is the beginning of one
that the newest key has signed. The
record is as it was posted, or its line {"kind": …, "record": …}. - is the standard
input.

Exit codes:
   0  verified
   2  bad arguments, or a file cannot be read
  10  malformed: none of these files
  11  wrong key: signed with another key (by a rotation: docs/keys.md), or for another log
  12  bad signature
  13  broken chain link: event, prev_event_hash, event_hash and leaf_hash disagree
  14  broken inclusion: the event is not in the signed tree
  15  a field disagrees with the event
  16  wrong record: the record does not hash to the event
  17  a minimal receipt, or a .tlog-proof without entry: nothing to prove
  18  wrong checks: of this record, something else comes out than the event says
  19  broken path: the stage is not in the tree of its run
  20  wrong text: it does not hash to the stage or the citation
  21  wrong content: what is in the pack is not what the event names
  22  replaced key: signed only with a key that has been replaced; --later shows more
  23  not in the later tree: --later shows another tree than the one that was signed`

// verifyOptions is the command line of verify.
type verifyOptions struct {
	file, key, record, entry, text, later string
	json                                  bool
}

func newVerify(c *cli.Console) *cobra.Command {
	var o verifyOptions
	command := &cobra.Command{
		Use:   "verify FILE --key KEY",
		Short: "Verify a receipt, a nested proof or an audit pack offline",
		Long:  verifyHelp,
		Example: `  colophon verify receipt.json --key verifier.key --record record.json
  curl -s localhost:8080/v1/ledgers/default/records/41/receipt | colophon verify - --key verifier.key
  colophon verify answer.proof.json --key verifier.key --text answer.txt
  colophon verify pack.html --key verifier.key`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o.file = args[0]
			return verify(c, o)
		},
	}
	command.Flags().StringVar(&o.key, "key", c.Environment("COLOPHON_KEY", ""), "verifier `key`, or a file with it, or COLOPHON_KEY")
	command.Flags().StringVar(&o.record, "record", "", "`file` with the record as it was posted")
	command.Flags().StringVar(&o.entry, "entry", "", "`file` with the entry that a .tlog-proof is about")
	command.Flags().StringVar(&o.text, "text", "", "`file` with the text that a nested proof is about")
	command.Flags().StringVar(&o.later, "later", "", "`file` with a later checkpoint and the consistency proof that leads to it")
	command.Flags().BoolVar(&o.json, "json", false, "print the outcome as JSON")
	return command
}

func (o verifyOptions) validate() error {
	if o.key == "" {
		return cli.Exitf(cli.ExitUsage, "--key is missing: give the ledger's verifier key, as serve prints it, or a file with it")
	}
	inputs := 0
	for _, name := range []string{o.file, o.key, o.record, o.entry, o.text, o.later} {
		if name == "-" {
			inputs++
		}
	}
	if inputs > 1 {
		return cli.Exitf(cli.ExitUsage, "the standard input can be read only once")
	}
	return nil
}

// only refuses the options that are for another kind of file.
func (o verifyOptions) only(what string, allowed ...string) error {
	for flag, value := range map[string]string{"record": o.record, "entry": o.entry, "text": o.text} {
		if value != "" && !slices.Contains(allowed, flag) {
			return cli.Exitf(cli.ExitUsage, "--%s is not for %s", flag, what)
		}
	}
	return nil
}

// verified is what a file proves.
type verified interface {
	print(c *cli.Console) error
}

func verify(c *cli.Console, o verifyOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	keys, err := verifyingKeys(c, o)
	if err != nil {
		return err
	}
	text, err := c.ReadFileUpTo(o.file, cli.MaxPack)
	if err != nil {
		return err
	}
	var proved verified
	switch {
	case pack.IsPack(text):
		proved, err = verifyPack(o, text, keys)
	case proofs.IsNested(text):
		proved, err = verifyNested(c, o, text, keys)
	default:
		proved, err = verifyReceipt(c, o, text, keys)
	}
	switch {
	case err != nil:
		return reject(c, o, afterRotation(err))
	case o.json:
		return cli.WriteJSON(c, proved)
	}
	return proved.print(c)
}
