package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"colophon/client"
	"colophon/client/wire"
	"colophon/internal/cli"
	"colophon/internal/remote"
	"colophon/proofs"
)

// receiptCommand holds the flags of the receipt command.
type receiptCommand struct {
	*cli.Console
	server   remote.Options
	ledger   string
	treeSize uint64 // 0 means the current size
}

func newReceipt(c *cli.Console) *cobra.Command {
	r := &receiptCommand{Console: c}
	command := &cobra.Command{
		Use:   "receipt (SEQ | EVENT_HASH)",
		Short: "Print the receipt of a record that is in the ledger",
		Long: `Print the receipt of a record, or of another event, as JSON. The receipt has the event, its
inclusion proof, and a signed checkpoint of the current tree, so colophon verify can check
it offline.

EVENT_HASH is the event_hash of the record, or at least its first 8 digits. The digits must
include a letter, because decimal digits alone are a SEQ. colophon drift search finds
records by a run ID, a label, any of their hashes, or their words.

The token needs the scope read or log.`,
		Example: `  colophon receipt 41 > receipt.json
  colophon receipt 3bbbf9fb6ace > receipt.json
  colophon receipt 41 --tree-size 57 | colophon verify - --key verifier.key`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return r.run(command.Context(), args[0]) },
	}
	command.SetFlagErrorFunc(cli.ExplainSeqFlagError)
	flags := command.Flags()
	r.server.Bind(c, flags)
	remote.BindLedgerFlag(c, flags, &r.ledger)
	flags.Uint64Var(&r.treeSize, "tree-size", 0, "tree `size` of the inclusion proof and the checkpoint; the default is the current size")
	return command
}

func (r *receiptCommand) run(ctx context.Context, arg string) error {
	seq, err := strconv.ParseUint(arg, 10, 64)
	hash := ""
	if err != nil || len(arg) == 2*len(proofs.Hash{}) {
		if hash = strings.ToLower(arg); !cli.IsHashPrefix(hash) {
			return cli.ExitErrorf(cli.ExitUsage, "%q is neither a seq nor 8 to 64 hexadecimal digits of an event_hash; to find a record by run ID, label, or words, use colophon drift search", arg)
		}
	}
	server, err := r.server.Connect(r.Console)
	if err != nil {
		return err
	}
	if hash != "" {
		if seq, err = r.seqOf(ctx, server, hash); err != nil {
			return err
		}
	}
	query := url.Values{}
	if r.treeSize > 0 {
		query.Set("tree_size", strconv.FormatUint(r.treeSize, 10))
	}
	answer, err := server.Do(ctx, client.Request{Path: fmt.Sprintf("%s/records/%d/receipt", remote.LedgerPath(r.ledger), seq), Query: query})
	if err != nil {
		return server.ExplainFatal(err)
	}
	if err := r.checkAnswer(answer.Body, seq, hash); err != nil {
		return fmt.Errorf("reading the server's response: %w", err)
	}
	_, err = fmt.Fprintf(r.Out, "%s\n", bytes.TrimRight(answer.Body, "\n"))
	return err
}

// seqOf returns the seq of the event whose hash begins with the given hex digits.
func (r *receiptCommand) seqOf(ctx context.Context, server *remote.Connection, hash string) (uint64, error) {
	answer, err := server.Do(ctx, client.Request{Path: remote.LedgerPath(r.ledger) + "/events/" + hash})
	switch {
	case errors.Is(err, client.ErrNotFound):
		return 0, cli.ExitErrorf(cli.ExitFailed, "%w; if the hash is not an event_hash, run colophon drift search %s to find the record", server.ExplainFatal(err), hash)
	case err != nil:
		return 0, server.ExplainFatal(err)
	}
	var line wire.EventLine
	if err := json.Unmarshal(answer.Body, &line); err != nil {
		return 0, fmt.Errorf("decoding the server's response: %w", err)
	}
	return line.Seq, nil
}

// checkAnswer returns an error unless text is a receipt of the requested event and contains an
// inclusion proof.
func (r *receiptCommand) checkAnswer(text []byte, seq uint64, hash string) error {
	receipt, err := proofs.ParseReceipt(text)
	switch {
	case err != nil:
		return err
	case receipt.Proof == nil:
		return proofs.ErrNoProof
	case receipt.Seq != seq || receipt.Ledger != r.ledger || !strings.HasPrefix(fmt.Sprintf("%x", receipt.EventHash), hash):
		return fmt.Errorf("the receipt is for event %d of ledger %.100q with the event_hash %x, not for the requested event", receipt.Seq, receipt.Ledger, receipt.EventHash)
	}
	return nil
}
