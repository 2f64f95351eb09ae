package main

import (
	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/verify"
	"colophon/proofs"
)

const verifyHelp = `Verify a file offline: the signature of its checkpoint, each event's link in the chain
and its place in the signed tree, and every field. FILE is one of these:
  a receipt in JSON, or a .tlog-proof file. With --record, verify also checks that the
      event is about this record, and that it has the values that this program computes
      from the record. For a .tlog-proof without the entry, give the entry with --entry:
      the entry itself, or its line of GET …/events.
  a nested proof from colophon prove or GET …/proof. With --text, verify also checks
      that this text is the text of the stage or citation. It always checks a text
      that is in the proof.
  an audit pack from colophon export. verify never runs its page.
  an export from colophon export --format, or its manifest. Both files must be in the
      same folder. verify names the rows that were changed, added, or removed.

The report names the members that the proof covers, and the members that it does not
cover. For the latter, you have to trust the server: values that follow from other events
(drift, category, …), replayed, and unknown members.

KEY is a verifier key as serve prints it, a file with verifier keys, one per line, or a
file with all keys of a log from "colophon keys list NAME --key KEY --json". In a file
with all keys, only the newest key is trusted by itself, because a replaced key may have
been stolen since. If only a replaced key signed, add --later: a file with the answer of
GET …/proofs/consistency?first=TREE_SIZE. It shows that the tree is the beginning of a
tree that the newest key signed.

With --copy, verify also reads a published copy of the log (serve --publish), and checks
that the file's tree is the beginning of the copy's tree. It follows the keys from KEY to
the newest one, so any key of the log suffices, and --later is not needed. URL is that of
audit: file:///folder/v1/ledgers/NAME, s3://…, gs://…, azblob://…, or that of a web server.

The file for --record has the record in the form of a POST request, or as a line of a
batch: {"kind": …, "record": …}. - is the standard input.

Exit codes:
   0  verified
   1  with --copy: the copy cannot be read, or is too short
   2  bad arguments, or a file cannot be read
  10  malformed: none of these files
  11  wrong key: signed with another key (after a rotation, see docs/keys.md), or for
      another log
  12  bad signature
  13  broken chain link: event, prev_event_hash, event_hash and leaf_hash disagree
  14  broken inclusion: the event is not in the signed tree
  15  a field disagrees with the event
  16  wrong record: the record is not the one in the event
  17  a minimal receipt, or a .tlog-proof without entry: nothing to prove
  18  wrong checks: the event's values differ from those computed from the record
  19  broken path: the stage is not in the tree of its run
  20  wrong text: it does not match the hash of the stage or the citation
  21  wrong content: the content in the pack is not the content that the event names
  22  replaced key: signed only with a key that has been replaced; try --later
  23  not in the later tree: --later or --copy has a different tree than the signed one
  24  wrong rows: rows of the exported file were changed, added, or removed`

func newVerify(c *cli.Console) *cobra.Command {
	var o verify.Options
	var copied string
	command := &cobra.Command{
		Use:   "verify FILE --key KEY",
		Short: "Verify a receipt, a nested proof, an audit pack or an export offline",
		Long:  verifyHelp,
		Example: `  colophon verify receipt.json --key verifier.key --record record.json
  colophon receipt 41 | colophon verify - --key verifier.key
  colophon verify answer.proof.json --key verifier.key --text answer.txt
  colophon verify pack.html --key verifier.key
  colophon verify records.parquet --key verifier.key
  colophon verify receipt.json --key verifier.key --copy file:///srv/copy/v1/ledgers/default`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			defer c.ExitOnInterrupt(command.Context())()
			o.File = args[0]
			if copied != "" {
				o.OpenCopy = func(trusted []*proofs.Verifier) (*verify.PublishedCopy, error) {
					return openCopy(command.Context(), copied, trusted)
				}
			}
			return verify.Run(c, o)
		},
	}
	command.Flags().StringVar(&o.Key, "key", c.EnvOr("COLOPHON_KEY", ""), "verifier `key`, or a file that contains it, or COLOPHON_KEY")
	command.Flags().StringVar(&o.RecordFile, "record", "", "`file` with the record, in the form of the body of a POST request")
	command.Flags().StringVar(&o.EntryFile, "entry", "", "`file` with the entry of a .tlog-proof")
	command.Flags().StringVar(&o.TextFile, "text", "", "`file` with the text of the stage or citation that a nested proof proves")
	command.Flags().StringVar(&o.LaterCheckpointFile, "later", "", "`file` with a later checkpoint and a consistency proof for it")
	command.Flags().StringVar(&copied, "copy", "", "`URL` of the ledger in a published copy of the log")
	command.Flags().BoolVar(&o.JSON, "json", false, "print the outcome as JSON")
	return command
}
