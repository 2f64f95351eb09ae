package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/verify"
)

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

func newVerify(c *cli.Console) *cobra.Command {
	var o verify.Options
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
			o.File = args[0]
			return verify.Run(c, o)
		},
	}
	command.Flags().StringVar(&o.Key, "key", c.Environment("COLOPHON_KEY", ""), "verifier `key`, or a file with it, or COLOPHON_KEY")
	command.Flags().StringVar(&o.Record, "record", "", "`file` with the record as it was posted")
	command.Flags().StringVar(&o.Entry, "entry", "", "`file` with the entry that a .tlog-proof is about")
	command.Flags().StringVar(&o.Text, "text", "", "`file` with the text that a nested proof is about")
	command.Flags().StringVar(&o.Later, "later", "", "`file` with a later checkpoint and the consistency proof that leads to it")
	command.Flags().BoolVar(&o.JSON, "json", false, "print the outcome as JSON")
	return command
}
