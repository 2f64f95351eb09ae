package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"colophon/internal/cli"
	"colophon/internal/datadir"
	"colophon/internal/remote"
	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/monitor"
	"colophon/storage"
	"colophon/storage/pebble"
)

// keysCommand is what the commands about signing keys share.
type keysCommand struct {
	*cli.Console
	server remote.Options
	data   string // empty: by the server
	key    string // trusted; empty: none
	json   bool
}

func newKeys(c *cli.Console) *cobra.Command {
	k := &keysCommand{Console: c}
	command := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate and retire the signing keys of a ledger",
		Long: `List, rotate and retire the signing keys of a ledger, through its server. If the server
does not run, use --data with its data folder.

A rotation is an event in the log. After it, the new key signs beside the current one,
so that readers have time to learn the new key. To end this overlap, retire the old key.
The origin stays the same. With a key that you trust, "colophon keys list NAME --key KEY
--json" checks the server's list of the other keys. Its output is a valid --key for
verify.`,
		Example: `  colophon keys list default
  colophon keys rotate default
  colophon keys retire default`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	k.server.Bind(c, command.PersistentFlags())
	command.PersistentFlags().StringVar(&k.data, "data", "", "data `folder` of a server that does not run, in place of a server")
	command.PersistentFlags().BoolVar(&k.json, "json", false, "print the keys as JSON, as GET /log/key answers them")
	command.AddCommand(k.newList(), k.newChange("rotate", (*ledger.Host).RotateKey), k.newChange("retire", (*ledger.Host).RetireKey))
	return command
}

func (k *keysCommand) newList() *cobra.Command {
	command := &cobra.Command{
		Use:   "list NAME",
		Short: "List the keys of a ledger, and check that each names the next",
		Long: `List the keys of a ledger. Each key names its successor in a note that both have signed,
and list checks these notes.

With --key, a key that you trust, list also checks that this key is in the list, that it
or a successor signed the log's checkpoint, and that each change of keys is an event in
the tree of this checkpoint. Only "colophon audit", which reads the whole log, shows
that there are no other changes.`,
		Example: `  colophon keys list default --key verifier.key
  colophon keys list default --key verifier.key --json > keys.json
  colophon verify receipt.json --key keys.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if k.key == "" && k.data == "" {
				k.Say("what follows is the server's word: --key with a key that you trust checks it")
			}
			return k.list(command.Context(), args[0])
		},
	}
	command.Flags().StringVar(&k.key, "key", k.Environment("COLOPHON_KEY", ""), "verifier `key` that you trust, or a file with it, or COLOPHON_KEY")
	return command
}

// newChange is the command for one step of a rotation; byHand does it without a server.
func (k *keysCommand) newChange(step string, byHand func(*ledger.Host, context.Context, string, string) (ledger.Ack, error)) *cobra.Command {
	short, long := "Have a new key sign beside the present one", `Add a signing key that signs beside the current one. rotate takes it from
keys/NAME.key.next in the data folder, or creates it. To make this file, use colophon
keygen with the ledger's origin. Keep a copy of the new key before you retire the old
one.`
	if step == "retire" {
		short, long = "Have the newest key sign alone", `End the overlap that a rotation began: from now on the newest key signs alone, and
checkpoints of more events do not count as signed by the old one. Its file,
keys/NAME.key.previous, is removed. Whoever verifies with the old key alone needs the
new one from now on.`
	}
	return &cobra.Command{
		Use:     step + " NAME",
		Short:   short,
		Long:    long,
		Example: "  colophon keys " + step + " default",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			ctx := command.Context()
			if k.data == "" {
				return k.change(ctx, args[0], step)
			}
			return k.offline(ctx, func(host *ledger.Host) error {
				if _, err := byHand(host, ctx, args[0], ledger.Anonymous); err != nil {
					return explainKeys(err)
				}
				l, err := host.Ledger(args[0])
				if err != nil {
					return explainKeys(err)
				}
				return k.show(l.Keys())
			})
		},
	}
}

// explainKeys says what to do where keys cannot be changed.
func explainKeys(err error) error {
	if errors.Is(err, ledger.ErrUnknown) || errors.Is(err, ledger.ErrOverlap) || errors.Is(err, ledger.ErrNoOverlap) {
		return cli.Exitf(cli.ExitFailed, "%w", err)
	}
	return err
}

// change has the server do a step, and shows the keys of afterwards.
func (k *keysCommand) change(ctx context.Context, name, step string) error {
	server, err := k.server.Connect(k.Console)
	if err != nil {
		return err
	}
	if _, err := server.Ledger(name).ChangeKeys(ctx, step); err != nil {
		return server.Exit(err)
	}
	return k.list(ctx, name)
}

// list shows the keys of a ledger.
func (k *keysCommand) list(ctx context.Context, name string) error {
	if k.data != "" {
		return k.listStored(ctx, name)
	}
	server, err := k.server.Connect(k.Console)
	if err != nil {
		return err
	}
	keys, err := server.Ledger(name).Log.Keys(ctx)
	if err != nil {
		return server.Exit(err)
	}
	trusted, err := k.trustedOf(keys)
	if err != nil {
		return err
	}
	if trusted != nil {
		fetch, err := monitor.NewFetcher(monitor.RemoteOf(server), remote.LedgerPath(name), time.Minute, 2)
		if err != nil {
			return err
		}
		if err := checkServedKeys(ctx, fetch, keys, trusted); err != nil {
			return err
		}
	}
	return k.print(keys)
}

// listStored shows the keys of a ledger of a data folder, and changes nothing in it.
func (k *keysCommand) listStored(ctx context.Context, name string) (err error) {
	database, err := datadir.OpenWith(ctx, k.Console, k.data, pebble.Config{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	store, err := database.Ledger(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return explainKeys(fmt.Errorf("ledger %q: %w", name, ledger.ErrUnknown))
	}
	if err != nil {
		return err
	}
	keys, err := checkedKeys(ctx, store)
	if err != nil {
		return datadir.ExplainOpen(fmt.Errorf("keys of ledger %q: %w", name, err), k.data)
	}
	return k.show(keys)
}

// show prints the keys of a ledger of a data folder, if the key that is trusted is among them.
func (k *keysCommand) show(keys *proofs.KeyHistory) error {
	if _, err := k.trustedOf(keys); err != nil {
		return err
	}
	return k.print(keys)
}

// checkedKeys are the keys of a stored log, one of which has signed its checkpoint.
func checkedKeys(ctx context.Context, log storage.Reader) (*proofs.KeyHistory, error) {
	keys, err := ledger.StoredKeys(ctx, log)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, errors.New("it has no event yet: start the server, which makes the first")
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the head: %w", err)
	}
	if _, err := proofs.OpenCheckpoint(head.Checkpoint, keys.Verifiers()...); err != nil {
		return nil, fmt.Errorf("%w: stored checkpoint: %w", ledger.ErrDamaged, err)
	}
	return keys, nil
}

// offline opens the ledgers of a data folder for f.
func (k *keysCommand) offline(ctx context.Context, f func(*ledger.Host) error) error {
	database, err := datadir.Open(ctx, k.Console, k.data)
	if err != nil {
		return err
	}
	host, err := ledger.OpenHost(ctx, database, datadir.SigningKeys(k.Console, k.data), func(string) ledger.Config { return ledger.Config{Log: k.Warnings(), Marks: datadir.Marks(k.data)} })
	if err != nil {
		return errors.Join(datadir.ExplainOpen(err, k.data), database.Close())
	}
	return errors.Join(f(host), host.Close(), database.Close())
}

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
	if !slices.ContainsFunc(trusted, keys.Trusts) {
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
