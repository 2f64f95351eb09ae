package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colophon/ledger"
	"colophon/proofs"
	"colophon/proofs/audit"
	"colophon/storage"
)

// fsckOptions is the command line of fsck.
type fsckOptions struct {
	data   string
	ledger string // empty: every one
	key    string // empty: the key file of each ledger
	json   bool
}

func newFsck(c *console) *cobra.Command {
	var o fsckOptions
	command := &cobra.Command{
		Use:   "fsck",
		Short: "Check everything that a data folder holds",
		Long: `Check every ledger of a data folder from its first event to its last: entries and
their chain, the hash tiles, the signed root, the content that events name and no
event has redacted, that it is kept for each of them, that what was to be erased is
gone, that nothing else is taken for redacted, and the idempotency keys; and that the
ledger has not signed more than it holds, as its high-water mark in the folder says.
What is damaged first in each is named. No ledger is changed; but like a start of the
server, fsck carries out an erasure that is pending, and the database's engine may
write its files anew.

No server may use the folder meanwhile.

Exit codes: 0 all is as it should be, 1 something is damaged or cannot be read,
2 bad arguments or no such folder, 4 another process uses the folder.`,
		Example: `  colophon fsck --data ./data
  colophon fsck --data ./backup --ledger generations --key verifier.key --json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return fsck(command.Context(), c, o)
		},
	}
	command.Flags().StringVar(&o.data, "data", c.environment("COLOPHON_DATA", "data"), "`folder` of database and keys, or COLOPHON_DATA")
	command.Flags().StringVar(&o.ledger, "ledger", "", "`name` of the one ledger to check; default all")
	command.Flags().StringVar(&o.key, "key", "", "verifier `key`, or a file with some; default from the folder's keys")
	command.Flags().BoolVar(&o.json, "json", false, "print the findings as JSON")
	return command
}

func fsck(ctx context.Context, c *console, o fsckOptions) error {
	findings, err := checkData(ctx, c, o)
	if errors.Is(err, storage.ErrDamaged) {
		return reportFindings(c, o, findings, unreadable(err))
	}
	if err != nil {
		return err
	}
	return reportFindings(c, o, findings, nil)
}

// checkData checks the ledgers of a data folder. An error that wraps
// storage.ErrDamaged is about the folder as a whole.
func checkData(ctx context.Context, c *console, o fsckOptions) ([]finding, error) {
	database, err := openOffline(ctx, c, o.data)
	if err != nil {
		return nil, err
	}
	findings, err := checkLedgers(ctx, c, o, database)
	return findings, errors.Join(err, database.Close())
}

// finding is what was found in one ledger.
type finding struct {
	Ledger   string  `json:"ledger"`
	Events   uint64  `json:"events"`
	Contents uint64  `json:"contents"`
	Redacted uint64  `json:"redacted"`
	Keys     uint64  `json:"keys"`
	Damage   *damage `json:"damage"`
}

// kindStorage is the kind of damage to files of the database that keeps a ledger, or the
// list of them, from being read. The walk of a ledger names what it cannot read by its
// own kinds.
const kindStorage = "storage"

// damage is the first damaged thing of a ledger, or of the folder.
type damage struct {
	Kind    string `json:"kind"`
	Seq     uint64 `json:"seq"`
	Tile    string `json:"tile,omitempty"`
	Content string `json:"content,omitempty"`
	Message string `json:"message"`
	text    string // all of it, for people
}

// unreadable is the damage that an error of the storage is about.
func unreadable(err error) *damage {
	message := err.Error() + "; restore the folder from a backup"
	return &damage{Kind: kindStorage, Message: message, text: kindStorage + ": " + message}
}

func checkLedgers(ctx context.Context, c *console, o fsckOptions, database storage.Database) ([]finding, error) {
	infos, err := database.Ledgers(ctx)
	if err != nil {
		return nil, err
	}
	if err := keysWithoutLedger(o.data, infos); err != nil {
		return nil, err
	}
	var findings []finding
	for _, info := range infos {
		if o.ledger != "" && info.Name != o.ledger {
			continue
		}
		found, err := checkLedger(ctx, c, o, database, infos, info)
		if ctx.Err() != nil {
			return nil, exitf(exitFailed, "interrupted while checking ledger %q", info.Name)
		}
		if errors.Is(err, storage.ErrDamaged) {
			found, err = finding{Ledger: info.Name, Damage: unreadable(err)}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("checking ledger %q: %w", info.Name, err)
		}
		findings = append(findings, found)
	}
	switch {
	case findings != nil:
	case o.ledger != "":
		return nil, exitf(exitUsage, "there is no ledger %q in %s", o.ledger, o.data)
	default:
		return nil, exitf(exitUsage, "there is no ledger in %s", o.data)
	}
	return findings, nil
}

// keysWithoutLedger is an error if a ledger is missing whose key is there.
func keysWithoutLedger(data string, infos []storage.Info) error {
	const suffix = ".key"
	files, err := filepath.Glob(filepath.Join(keyFiles(data).Dir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), suffix)
		if !slices.ContainsFunc(infos, func(info storage.Info) bool { return info.Name == name }) {
			return exitf(exitFailed, "ledger %q is missing: its key %s is there, and has signed it", name, file)
		}
	}
	return nil
}

func checkLedger(ctx context.Context, c *console, o fsckOptions, database storage.Database, infos []storage.Info, info storage.Info) (finding, error) {
	trusted, err := ledgerKeys(c, o, infos, info)
	if err != nil {
		return finding{}, err
	}
	store, err := database.Ledger(ctx, info.Name)
	if err != nil {
		return finding{}, err
	}
	keys, err := storedKeys(ctx, store, trusted)
	if err != nil {
		return finding{}, err
	}
	head, err := store.Head(ctx)
	if err != nil {
		return finding{}, err
	}
	bar := newProgress(c, int64(head.Size), "checking "+info.Name)
	defer bar.finish()
	report, err := audit.Log(ctx, ledger.AuditSource(store), audit.Options{
		Verifiers: trusted, Successors: keys,
		Ledger:   info.Name,
		Strict:   true,
		Progress: func(done, _ uint64) { bar.set(done) },
	})
	if err != nil {
		return finding{}, err
	}
	if origin := report.Checkpoint.Origin; report.Damage == nil && origin != info.Origin && head.Size > 0 {
		report.Damage = &audit.Damage{Kind: audit.KindHead, Seq: head.Size,
			Message: fmt.Sprintf("the ledger's description has the origin %q, its checkpoint %q", info.Origin, origin)}
	}
	if report.Damage == nil {
		if report.Damage, err = checkMark(ctx, o.data, info.Name, store, keys); err != nil {
			return finding{}, err
		}
	}
	found := finding{Ledger: info.Name, Events: report.Size, Contents: report.Contents, Redacted: report.Redacted, Keys: report.Keys}
	if d := report.Damage; d != nil {
		found.Damage = &damage{string(d.Kind), d.Seq, d.Tile, d.Name, d.Message, d.Error()}
	}
	return found, nil
}

// ledgerKeys are the keys of a ledger that are trusted: those given for its origin, else
// the one in the folder. Keys that are given for no ledger are taken for this one.
func ledgerKeys(c *console, o fsckOptions, infos []storage.Info, info storage.Info) ([]*proofs.Verifier, error) {
	if o.key != "" {
		given, err := c.readKeys(o.key)
		if err != nil {
			return nil, err
		}
		own := slices.DeleteFunc(slices.Clone(given), func(v *proofs.Verifier) bool { return v.Name() != info.Origin })
		others := slices.ContainsFunc(given, func(v *proofs.Verifier) bool {
			return slices.ContainsFunc(infos, func(i storage.Info) bool { return i.Origin == v.Name() })
		})
		switch {
		case len(own) > 0:
			return own, nil
		case !others:
			return given, nil
		}
	}
	signer, err := signingKeys(c, o.data).Load(info.Name)
	if err != nil {
		return nil, exitf(exitUsage, "the signing key of ledger %q: %w\nGive its verifier key with --key", info.Name, err)
	}
	return []*proofs.Verifier{signer.Verifier()}, nil
}

// reportFindings prints what was found in each ledger, and what keeps the folder from
// being read if anything does.
func reportFindings(c *console, o fsckOptions, findings []finding, folder *damage) error {
	clean := folder == nil && !slices.ContainsFunc(findings, func(f finding) bool { return f.Damage != nil })
	if o.json {
		report := struct {
			Clean   bool      `json:"clean"`
			Ledgers []finding `json:"ledgers"`
			Damage  *damage   `json:"damage,omitempty"` // of the folder
		}{clean, append([]finding{}, findings...), folder}
		if err := writeJSON(c, report); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			if _, err := fmt.Fprintln(c.out, f); err != nil {
				return err
			}
		}
		if folder != nil {
			if _, err := fmt.Fprintf(c.out, "%s: DAMAGED: %s\n", o.data, folder.text); err != nil {
				return err
			}
		}
	}
	if !clean {
		return &exitError{code: exitFailed}
	}
	return nil
}

// String is the finding for people.
func (f finding) String() string {
	if f.Damage != nil {
		return fmt.Sprintf("%s: DAMAGED: %s", f.Ledger, f.Damage.text)
	}
	return fmt.Sprintf("%s: clean: %s, %d contents, %d idempotency keys, %d redacted contents", f.Ledger,
		counted(f.Events, "event"), f.Contents, f.Keys, f.Redacted)
}
