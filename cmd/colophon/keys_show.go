package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"colophon/internal/cli"
	"colophon/proofs"
)

// trustedOf returns the keys that --key names, one of which must be one of the history;
// nil without --key.
func (k *keysCommand) trustedOf(keys *proofs.KeyHistory) ([]*proofs.Verifier, error) {
	if k.key == "" {
		return nil, nil
	}
	trusted, err := k.ReadKeys(k.key)
	if err != nil {
		return nil, err
	}
	if !trustsOne(keys, trusted) {
		return nil, cli.Exitf(cli.ExitFailed, "the key that you trust is none of this ledger's: do not trust the others")
	}
	return trusted, nil
}

// print prints the keys of a ledger.
func (k *keysCommand) print(keys *proofs.KeyHistory) error {
	if k.json {
		return cli.WriteJSON(k.Console, keys)
	}
	return printKeys(k.Out, keys)
}

// trustsOne reports whether one of the trusted keys is one of the history.
func trustsOne(keys *proofs.KeyHistory, trusted []*proofs.Verifier) bool {
	return slices.ContainsFunc(trusted, keys.Trusts)
}

func printKeys(out io.Writer, keys *proofs.KeyHistory) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "signs\t%s\n", keys.Current())
	for _, r := range keys.Replaced() {
		if size, retired := r.Verifier.SignedUpTo(); retired {
			fmt.Fprintf(table, "signed up to size %d\t%s\n", size, r.Verifier)
		} else {
			fmt.Fprintf(table, "signs too, since event %d\t%s\n", r.ReplacedAt, r.Verifier)
		}
	}
	return table.Flush()
}
