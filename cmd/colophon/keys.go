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
	"colophon/proofs/monitor/fetch"
	"colophon/storage"
)

// keysCommand holds the flags that the keys subcommands share.
type keysCommand struct {
	*cli.Console
	server remote.Options
	data   string // data folder to work on; "" means that the command asks the server
	url    storeFlag
	key    string // value of --key; "" if the flag is not given
	json   bool
}

func newKeys(c *cli.Console) *cobra.Command {
	k := &keysCommand{Console: c}
	command := &cobra.Command{
		Use:   "keys",
		Short: "List, rotate and retire the signing keys of a ledger",
		Long: `List, rotate and retire the signing keys of a ledger, through its server. If the server
is stopped, give its data folder with --data.

A rotation is an event in the log. After it, the new key signs alongside the current
one, so that readers have time to learn the new key. To end this overlap, retire the old
key. The origin stays the same. "colophon keys list NAME --key KEY --json" uses a key that you
trust to check the server's list of the other keys. You can give its output to verify as
--key.`,
		Example: `  colophon keys list default
  colophon keys rotate default
  colophon keys retire default`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	k.server.Bind(c, command.PersistentFlags())
	command.PersistentFlags().StringVar(&k.data, "data", "", "data `folder` of a stopped server; use this instead of --server")
	k.url.bind(command.PersistentFlags(), "log, with --data")
	command.PersistentFlags().BoolVar(&k.json, "json", false, "print the keys as JSON, in the form of GET /log/key")
	command.AddCommand(k.newList(), k.newChange("rotate", (*ledger.Host).RotateKey), k.newChange("retire", (*ledger.Host).RetireKey))
	return command
}

func (k *keysCommand) newList() *cobra.Command {
	command := &cobra.Command{
		Use:   "list NAME",
		Short: "List the keys of a ledger, and check the notes that link them",
		Long: `List the keys of a ledger. Each key names its successor in a note that both have signed,
and list checks these notes.

With a key that you trust (--key), list also checks that this key is in the list, that it
or a successor signed the log's checkpoint, and that each key change is an event in the
tree of this checkpoint. Only "colophon audit", which reads the whole log, shows that
there are no other changes.`,
		Example: `  colophon keys list default --key verifier.key
  colophon keys list default --key verifier.key --json > keys.json
  colophon verify receipt.json --key keys.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if k.key == "" && k.data == "" {
				k.PrintErrf("the server's response is not verified; to verify it, use --key with a key that you trust")
			}
			return k.list(command, args[0])
		},
	}
	command.Flags().StringVar(&k.key, "key", k.EnvOr("COLOPHON_KEY", ""), "verifier `key` that you trust, or a file with it, or COLOPHON_KEY")
	return command
}

// newChange returns the subcommand for one step of a key rotation. step is "rotate" or "retire".
// offline performs the step on a data folder without a server.
func (k *keysCommand) newChange(step string, offline func(*ledger.Host, context.Context, string, string) (ledger.Ack, error)) *cobra.Command {
	short, long := "Add a signing key that signs alongside the current one", `Add a signing key that signs alongside the current one. rotate takes it from
keys/NAME.key.next in the data folder, or creates it. To make this file, use colophon
keygen with the ledger's origin. Keep a copy of the new key before you retire the old
one.`
	if step == "retire" {
		short, long = "Retire the previous key, and leave only the newest key to sign", `Retire the previous signing key, which ends the overlap of a rotation. From then on,
only the newest key signs, and a larger checkpoint that only the old key signed is not
valid. retire removes the file of the old key, keys/NAME.key.previous. Readers that know
only the old key then need the new one.`
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
				return k.change(command, args[0], step)
			}
			return k.withHost(command, func(host *ledger.Host) error {
				if _, err := offline(host, ctx, args[0], ledger.AnonymousActor); err != nil {
					return explainKeys(err)
				}
				return k.conclude(step, func() (*proofs.KeyHistory, error) {
					l, err := host.Ledger(args[0])
					if err != nil {
						return nil, err
					}
					return l.KeyHistory(), nil
				})
			})
		},
	}
}

// explainKeys sets the exit code if a key change failed for an expected reason. It returns any
// other error unchanged.
func explainKeys(err error) error {
	if errors.Is(err, ledger.ErrUnknownLedger) || errors.Is(err, ledger.ErrKeyOverlap) || errors.Is(err, ledger.ErrNoKeyOverlap) {
		return cli.ExitErrorf(cli.ExitFailed, "%w", err)
	}
	return err
}

// change asks the server to perform one step of a rotation and then prints the resulting keys.
func (k *keysCommand) change(command *cobra.Command, name, step string) error {
	ctx := command.Context()
	server, err := k.server.Connect(k.Console)
	if err != nil {
		return err
	}
	if _, err := server.Ledger(name).AdvanceKeyRotation(ctx, step); err != nil {
		return server.ExplainFatal(err)
	}
	return k.conclude(step, func() (*proofs.KeyHistory, error) {
		keys, err := server.Ledger(name).Log.Keys(ctx)
		return keys, server.Explain(err)
	})
}

// conclude prints that a step succeeded, and then the keys that read returns. The step cannot be
// undone, so conclude only warns if read fails. It does not compare the keys with COLOPHON_KEY,
// which may be the key of another ledger.
func (k *keysCommand) conclude(step string, read func() (*proofs.KeyHistory, error)) error {
	if !k.json {
		if _, err := fmt.Fprintf(k.Out, "the key was %sd\n", step); err != nil {
			return err
		}
	}
	keys, err := read()
	if err != nil {
		k.PrintErrf("the key was %sd, but the ledger's keys cannot be shown: %v", step, err)
		return nil
	}
	return k.print(keys)
}

// list prints the keys that the server or the data folder has for a ledger. With --key, it first
// checks these keys against the keys that the user trusts.
func (k *keysCommand) list(command *cobra.Command, name string) error {
	ctx := command.Context()
	if k.data != "" {
		return k.listStored(ctx, name, k.url.value(k.Console, command))
	}
	server, err := k.server.Connect(k.Console)
	if err != nil {
		return err
	}
	keys, err := server.Ledger(name).Log.Keys(ctx)
	if err != nil {
		return server.ExplainFatal(err)
	}
	trusted, err := k.trustedOf(keys)
	if err != nil {
		return err
	}
	if trusted != nil {
		from, err := fetch.New(fetchFrom(server), name, time.Minute, 2)
		if err != nil {
			return err
		}
		if err := checkServedKeys(ctx, from, keys, trusted); err != nil {
			return err
		}
	}
	return k.print(keys)
}

// listStored prints the keys of a ledger in a data folder, which it opens read-only.
func (k *keysCommand) listStored(ctx context.Context, name, url string) (err error) {
	database, err := openDatabase(ctx, k.Console, k.data, url, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, database.Close()) }()
	store, err := database.Ledger(ctx, name)
	if errors.Is(err, storage.ErrNotFound) {
		return explainKeys(fmt.Errorf("finding ledger %q: %w", name, ledger.ErrUnknownLedger))
	}
	if err != nil {
		return err
	}
	keys, err := checkedKeys(ctx, store)
	if err != nil {
		return datadir.ExplainOpenError(fmt.Errorf("reading the keys of ledger %q: %w", name, err), k.data)
	}
	if _, err := k.trustedOf(keys); err != nil {
		return err
	}
	return k.print(keys)
}

// checkedKeys returns the keys of a stored log. It checks that the stored checkpoint is signed with
// one of them.
func checkedKeys(ctx context.Context, log storage.Reader) (*proofs.KeyHistory, error) {
	keys, err := ledger.ReadKeyHistory(ctx, log)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return nil, errors.New("the ledger has no events yet; start the server, which writes the first event")
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the head of the log: %w", err)
	}
	if _, err := proofs.OpenCheckpoint(head.Checkpoint, keys.Verifiers()...); err != nil {
		return nil, fmt.Errorf("%w: verifying the stored checkpoint: %w", ledger.ErrDamaged, err)
	}
	return keys, nil
}

// withHost opens the ledgers of a data folder for writing, calls f, and closes them.
func (k *keysCommand) withHost(command *cobra.Command, f func(*ledger.Host) error) error {
	ctx := command.Context()
	database, err := openDatabase(ctx, k.Console, k.data, k.url.value(k.Console, command), false)
	if err != nil {
		return err
	}
	host, err := ledger.OpenHost(ctx, database, datadir.SigningKeys(k.Console, k.data), func(string) ledger.Config {
		return ledger.Config{Logger: k.WarningLogger(), HighWaterMarks: datadir.HighWaterMarkFiles(k.data)}
	})
	if err != nil {
		return errors.Join(datadir.ExplainOpenError(err, k.data), database.Close())
	}
	return errors.Join(f(host), host.Close(), database.Close())
}

// trustedOf returns the keys given with --key, or nil if the flag is not set. It returns an error
// if the ledger's key history contains none of them.
func (k *keysCommand) trustedOf(keys *proofs.KeyHistory) ([]*proofs.Verifier, error) {
	if k.key == "" {
		return nil, nil
	}
	trusted, err := k.ReadCurrentKeys(k.key)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(trusted, keys.Contains) {
		return nil, cli.ExitErrorf(cli.ExitFailed, "none of the keys given with --key belongs to this ledger; do not trust the ledger's list of keys")
	}
	return trusted, nil
}

func (k *keysCommand) print(keys *proofs.KeyHistory) error {
	if k.json {
		return cli.PrintAsJSON(k.Console, keys)
	}
	return printKeys(k.Out, keys)
}

func printKeys(out io.Writer, keys *proofs.KeyHistory) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "signs\t%s\n", keys.CurrentKey())
	for _, r := range keys.ReplacedKeys() {
		if size, retired := r.Verifier.RetirementSize(); retired {
			fmt.Fprintf(table, "signed up to size %d\t%s\n", size, r.Verifier)
		} else {
			fmt.Fprintf(table, "also signs, since event %d\t%s\n", r.ReplacedAtSeq, r.Verifier)
		}
	}
	return table.Flush()
}
